//! The service from end to end: real servers, real agents, real jobs, through the real binary.

mod agree;
mod arrays;
mod crash;
mod dags;
mod guides;
mod jobs;
mod learning;
mod nodes;
mod pools;
mod secure;
mod stand;
mod upgrade;
mod words;
