//! The agent with a real keeper and real processes, against a server that is played by the test through the real protocol.

mod basics;
mod containers;
mod identity;
mod modules;
mod server;
mod survival;
mod throughput;
