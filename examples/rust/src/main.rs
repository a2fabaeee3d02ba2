//! The example programs.

fn main() {}
