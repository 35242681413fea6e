//! Negotiated placement: acceptance cases in virtual time, and simulation under faults.

mod negotiate {
    mod cases;
    mod faults;
    mod gates;
    mod net;
    mod table;
}
