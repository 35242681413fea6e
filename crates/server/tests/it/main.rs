//! A real server over real HTTP: who may what, requests, answers, streams.

mod auth;
mod basics;
mod board;
mod common;
mod facts;
mod intake;
mod peers;
mod requests;
mod watching;
