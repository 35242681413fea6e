//! The service from end to end: real servers, real agents, real jobs, through the real binary.

mod agree;
mod arrays;
mod clock;
mod crash;
mod dags;
mod damaged;
mod disconnected;
mod guides;
mod identity;
mod jobs;
mod keepers;
mod learning;
mod nodes;
mod pools;
mod ready;
mod restored;
mod resume;
mod rounds;
mod secure;
mod silence;
mod stand;
mod storm;
mod taken_over;
mod told;
mod upgrade;
mod words;
