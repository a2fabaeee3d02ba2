//! The rule, word for word and without an index: which owners wait for which, and the shortest cycle.

use super::game::{Lock, Party};

/// The lock that an owner waits for, if it is one, and who must go there before it can get in.
fn waits_for(locks: &[Lock], owner: usize) -> Option<(usize, Vec<usize>)> {
    let mut waits = (0..locks.len()).filter(|at| locks[*at].is_waited_for_by(owner));
    let (Some(at), None) = (waits.next(), waits.next()) else {
        return None;
    };
    let lock = &locks[at];
    let line = first_calls(&lock.line);
    let place = line.iter().position(|call| call.owner == owner)?;
    let all = line[..=place].iter().any(|call| call.limit == 1);
    let must_go = lock
        .holders
        .iter()
        .filter(|holder| all || holder.limit == 1);
    Some((at, must_go.map(|holder| holder.owner).collect()))
}

/// The first call of each owner.
fn first_calls(line: &[Party]) -> Vec<Party> {
    let mut firsts: Vec<Party> = Vec::new();
    for call in line {
        if !firsts.iter().any(|first| first.owner == call.owner) {
            firsts.push(*call);
        }
    }
    firsts
}

/// The number of owners of the shortest cycle through the caller.
pub(super) fn shortest_cycle(locks: &[Lock], caller: usize) -> Option<usize> {
    let mut reached = vec![caller];
    let mut newest = reached.clone();
    for owners in 1.. {
        let mut further: Vec<usize> = newest
            .iter()
            .filter_map(|owner| waits_for(locks, *owner))
            .flat_map(|(_, must_go)| must_go)
            .collect();
        if further.contains(&caller) {
            return Some(owners);
        }
        further.retain(|owner| !reached.contains(owner));
        if further.is_empty() {
            return None;
        }
        reached.extend(&further);
        newest = further;
    }
    None
}

/// True when each waits for its lock only, and for the next one there, the last for the first.
pub(super) fn is_cycle(locks: &[Lock], waits: &[(usize, usize)]) -> bool {
    let next = waits.iter().cycle().skip(1);
    waits.iter().zip(next).all(|((owner, at), (next, _))| {
        waits_for(locks, *owner)
            .is_some_and(|(lock, must_go)| lock == *at && must_go.contains(next))
    })
}
