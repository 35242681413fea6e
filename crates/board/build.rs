//! Takes the page in that `npm run build` made in `web/dist/page`. Nothing here calls npm: a machine without Node builds Landfall all the
//! same, and its server says how to get the board.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let crate_dir = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    println!("cargo:rerun-if-changed=build.rs");
    // This folder is always there, so that the script runs again when the page appears and at no other time.
    println!("cargo:rerun-if-changed=web/dist");
    let page = crate_dir.join("web/dist/page");
    let mut files = Vec::new();
    collect(&page, &mut files);
    files.sort();
    // Copied beside the table: a build directory outlives the clone it was filled from.
    let copied = |file: &Path, to: &str| {
        std::fs::copy(file, out.join(to))
            .expect("the page can be read, and cargo's own directory be written to");
        format!("include_bytes!({to:?})")
    };
    let mut table = String::from("&[\n");
    let unpacked = files.iter().filter(|file| file.extension().is_none_or(|ending| ending != "gz"));
    for (number, file) in unpacked.enumerate() {
        let name = file.strip_prefix(&page).unwrap_or(file).display().to_string();
        let mut packed = file.clone().into_os_string();
        packed.push(".gz");
        let packed = match Path::new(&packed).exists() {
            true => format!("Some({})", copied(Path::new(&packed), &format!("{number}.gz"))),
            false => "None".to_owned(),
        };
        let bytes = copied(file, &number.to_string());
        let _ = writeln!(table, "    Asset {{ path: {name:?}, bytes: {bytes}, packed: {packed} }},");
    }
    table += "]\n";
    std::fs::write(out.join("assets.rs"), table).expect("cargo's own directory can be written to");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => collect(&path, files),
            false => files.push(path),
        }
    }
}
