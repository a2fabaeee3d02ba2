//! Several grants on their way to callers of which some are gone: each share returns, one by one.

use crate::holders::enter;
use testbed::{Copies, held_and_waited_for, transaction, wait, wait_to_share};

/// `a` lets go, and these callers are killed in the same transaction.
#[test]
fn some_of_them_are_gone() {
    let (copies, mut c) = Copies::started();
    enter(&mut c, "a");
    let mut readers = wait_to_share(&copies, ["b", "d", "e", "f", "g"]);
    let _writer = wait(&copies, "k writer PX 600000 BLOCK 0");
    let kills = [0, 2, 4].map(|gone: usize| format!("CLIENT KILL ID {}", readers[gone].id));
    let lines: Vec<_> = ["LOCK.RELEASE k a".to_owned()]
        .into_iter()
        .chain(kills)
        .collect();
    assert_eq!(transaction(&mut c, &lines).len(), 4);
    for stays in [1, 3] {
        readers[stays].granted();
    }
    held_and_waited_for(&mut c, &["d", "f"], &["writer"]);
    copies.agree();
}
