//! Two sellers whose steps come in every order, each step done at once.

use crate::seller::{EVERYWHERE, Kept, Recipe, two};
use crate::session::Database;

/// All orders of the steps of `a`, the holder whose lease has ended, and of `b`, the next.
fn orders(a: usize, b: usize) -> Vec<String> {
    if a == 0 || b == 0 {
        return vec!["a".repeat(a) + &"b".repeat(b)];
    }
    let then = |first: &str, rest: Vec<String>| -> Vec<String> {
        rest.iter().map(|order| format!("{first}{order}")).collect()
    };
    [then("a", orders(a - 1, b)), then("b", orders(a, b - 1))].concat()
}

/// How often the seat is sold.
fn sold(database: &Database, kept: Kept, recipe: Recipe, order: &str) -> usize {
    database.reset();
    let sellers = two(kept, recipe);
    let mut sessions = [database.connect(), database.connect()];
    // Where a seller is: it claims, looks, sells.
    let first = match recipe {
        Recipe::Claims => 0,
        Recipe::OnlyWrites => 1,
    };
    let mut steps = [first; 2];
    let mut free = [0; 2];
    let mut sold = 0;
    for who in order.bytes().map(|name| usize::from(name - b'a')) {
        let (seller, session) = (&sellers[who], &mut sessions[who]);
        match steps[who] {
            // Refused, it does nothing more.
            0 if !seller.claim(session).expect("a claim") => steps[who] = 3,
            1 => free[who] = seller.free(session),
            2 if free[who] > 0 => {
                sold += usize::from(seller.sell_alone(session).expect("a sale"));
            }
            _ => {}
        }
        steps[who] += 1;
    }
    sold
}

fn without_the_claim_a_seat_is_sold_twice(database: &Database) {
    for kept in EVERYWHERE {
        let twice = |order: &String| sold(database, kept, Recipe::OnlyWrites, order) == 2;
        let twice: Vec<_> = orders(2, 2).into_iter().filter(twice).collect();
        // Both look, then both write, the late one first.
        assert_eq!(twice, ["abab", "baab"], "{kept:?}");
    }
}

fn with_the_claim_it_is_sold_once_in_every_order(database: &Database) {
    let orders = orders(3, 3);
    assert_eq!(orders.len(), 20);
    for kept in EVERYWHERE {
        for order in &orders {
            let sold = sold(database, kept, Recipe::Claims, order);
            assert_eq!(sold, 1, "{kept:?}, {order}");
        }
    }
}

#[test]
fn a_seat_is_sold_once_only_where_it_is_claimed_in_sqlite() {
    let database = Database::sqlite();
    without_the_claim_a_seat_is_sold_twice(&database);
    with_the_claim_it_is_sold_once_in_every_order(&database);
}

#[test]
fn a_seat_is_sold_once_only_where_it_is_claimed_in_postgresql() {
    if let Some(database) = Database::postgres() {
        without_the_claim_a_seat_is_sold_twice(&database);
        with_the_claim_it_is_sold_once_in_every_order(&database);
    }
}
