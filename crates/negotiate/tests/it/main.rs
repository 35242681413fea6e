//! Negotiated placement: acceptance cases in virtual time, and simulation under faults.

mod cases;
mod conduct;
mod faults;
mod fences;
mod gates;
mod net;
mod table;
