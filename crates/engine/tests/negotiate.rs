//! Negotiated placement: acceptance cases in virtual time, and simulation under faults.

mod negotiate {
    mod cases;
    mod faults;
    mod fences;
    mod gates;
    mod net;
    mod table;
}
