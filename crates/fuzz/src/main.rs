//! The program that `cargo xtask fuzz` builds: libFuzzer around one target, which is named when it is built. What the target does not reach
//! is left out by the linker, so that the fuzzer does not look through counters of code that never runs.
#![no_main]

/// The target of this build.
const TARGET: landfall_fuzz::Target = landfall_fuzz::named(env!("LANDFALL_FUZZ_TARGET"));

libfuzzer_sys::fuzz_target!(|input: &[u8]| (TARGET.run)(input));
