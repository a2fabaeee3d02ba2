//! Saves that fail, so that a server refuses writes (`MISCONF`) until one succeeds; and rewrites of the append-only file.

use super::Server;
use crate::talk::Expect;
use crate::{cmd, eventually};
use std::fs;
use std::path::PathBuf;

impl Server {
    /// Makes saves fail, for real: nothing can be put in the place of a folder.
    #[track_caller]
    pub fn fail_to_save(&self) {
        fs::create_dir_all(self.dump_file().join("taken")).expect("a folder");
        self.save_in_background("err");
    }

    /// Lets saves succeed again.
    #[track_caller]
    pub fn save_again(&self) {
        fs::remove_dir_all(self.dump_file()).expect("a folder to remove");
        self.save_in_background("ok");
    }

    /// Waits until a new append-only file is in use.
    #[track_caller]
    pub fn wait_for_rewrite(&self) {
        let status = |field| self.info_field("persistence", field);
        let fields = ["aof_rewrite_in_progress", "aof_rewrite_scheduled"];
        eventually(|| fields.map(&status) == ["0", "0"], "the rewrite to end");
        assert_eq!(status("aof_last_bgrewrite_status"), "ok");
    }

    fn dump_file(&self) -> PathBuf {
        self.dir().join("dump.rdb")
    }

    #[track_caller]
    fn save_in_background(&self, outcome: &str) {
        cmd!(self.connection(), "BGSAVE").value();
        let status = |field| self.info_field("persistence", field);
        let fields = ["rdb_bgsave_in_progress", "rdb_last_bgsave_status"];
        eventually(|| fields.map(&status) == ["0", outcome], "the save to end");
    }
}
