//! The program is linked to a fixed address. Loading it anywhere means writing to a third of the pages that a short call touches, before it
//! has done anything; a call that submits a job spends a fifth of its time there. Libraries, heap and stack stay where nobody can guess.
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
