//! What is loaded is what the appended events make, wherever snapshots, compactions and restarts fall.

use landfall_engine::State;
use landfall_model::Time;
use landfall_store::{Reader, Store, encode_state};
use proptest::prelude::*;

use super::support::Script;
use super::{fresh, open};

#[derive(Debug, Clone)]
enum Act {
    Append(usize),
    Snapshot,
    /// Compacts up to so many thousandths of the time that has passed.
    Compact(i64),
    Reopen,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (1_usize..60).prop_map(Act::Append),
        2 => Just(Act::Snapshot),
        2 => (0_i64..1200).prop_map(Act::Compact),
        1 => Just(Act::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn load_equals_applying_everything(seed in any::<u64>(), acts in prop::collection::vec(act(), 1..40)) {
        let (dir, mut store) = fresh();
        let mut script = Script::new(seed, 2);
        let mut expected = State::default();
        let mut all = Vec::new();
        for act in acts {
            match act {
                Act::Append(turns) => {
                    let batch = script.turns(turns);
                    prop_assert_eq!(store.append(&batch).unwrap(), (all.len() + batch.events.len()) as u64);
                    for (at, event) in batch.events {
                        expected.apply(at, &event);
                        all.push((at, event));
                    }
                }
                Act::Snapshot => store.snapshot(all.len() as u64, &encode_state(&expected)).unwrap(),
                Act::Compact(part) => {
                    let since = Time::from_millis(expected.now.as_millis() * part / 1000);
                    while store.compact(since).unwrap().more {}
                }
                Act::Reopen => {
                    drop(store);
                    store = open(dir.path());
                }
            }
            let loaded = store.load().unwrap();
            prop_assert_eq!(&loaded.state, &expected);
            prop_assert_eq!(loaded.seq, all.len() as u64);
            prop_assert_eq!(loaded.replayed, loaded.seq - loaded.snapshot_seq);
            let oldest = store.oldest_seq().unwrap();
            prop_assert!(oldest <= loaded.snapshot_seq + 1);
            let kept = store.events(oldest - 1, usize::MAX).unwrap();
            prop_assert_eq!(kept.len() as u64, loaded.seq + 1 - oldest);
            for stored in kept {
                prop_assert_eq!((stored.at, stored.event), all[stored.seq as usize - 1].clone());
            }
        }
        prop_assert_eq!(expected.hash(), script.state().hash());
    }
}
