//! What a plan says about a submission is what submitting does: random submissions, planned and then made.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hasher as _};

use landfall_api::job::PlannedJob;
use landfall_engine::Event;
use landfall_engine::dag::NewJob;
use landfall_model::{Dispatch, Job, Needs, Pool, PoolId};
use landfall_server::config::PoolConfig;
use landfall_store::sqlite::Sqlite;
use landfall_store::{Batch, Change, Reader as _, Store as _, Table};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::common::{Server, answer};

/// Submissions per run.
const CASES: usize = 400;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Once in so many times.
    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Values of needs: most make sense by themselves, some together, some never.
fn needs(random: &mut Random) -> Value {
    let known = [
        ("cpu_milli", json!([100, "2 cores", 900_000, null])),
        ("ram_mib", json!([0, 512, "1GiB"])),
        ("gpu_count", json!([0, 1, 2])),
        ("vram_mib", json!([1024, "8GiB"])),
        ("gpu_milli", json!([500, 1000])),
        ("gpu_models", json!([["A100"], []])),
        ("gpu_slice", json!(["1g.10gb", "2g"])),
        ("image", json!(["alpine", "quay.io/a/b:1"])),
        ("runtime", json!(["process", "container", "wasm", "llmcpp"])),
        ("model_mib", json!([100, "64GiB"])),
        ("pool", json!(["default", "lab", "lab"])),
        ("tenant", json!(["a", "b", "c"])),
        ("priority", json!([-3, 7])),
        ("tier", json!(["FAST", "FLEX"])),
        ("class", json!([0, 5, 10])),
        ("sensitive", json!([true, false])),
        ("exclusive", json!([true, false])),
        ("preemptible", json!([true, false])),
        ("nodes", json!([1, 2, {"min": 1, "max": 3}])),
        ("walltime_ms", json!(["2h", 1000])),
        ("expected_duration_ms", json!(["5min", 1])),
        ("checkpoint", json!(["none", "auto", "manual"])),
        ("checkpoint_minutes", json!([5])),
        ("max_price", json!([0, 0.5])),
        ("requeue", json!(["never", "always"])),
        ("max_requeue", json!([0, 5])),
        ("retry_delay_ms", json!([0, "30s"])),
        ("at_once", json!([1, 5])),
        ("max_fails", json!([0, 3])),
        ("on_disconnect", json!(["keep", "stop"])),
        ("disconnect_stop_after_ms", json!(["30s", 5000])),
        ("mutex", json!([["m"], ["m", "n"]])),
        ("features", json!([["x"], [{"name": "y", "count": 2}]])),
        ("inputs", json!([[{"digest": "d", "bytes": 10}]])),
        ("hints", json!([{"prefer_regions": ["eu"]}])),
        ("provider", json!(["prime", "sfcompute"])),
        ("wait_for_capacity", json!([true])),
        ("region", json!(["eu"])),
        ("workload", json!(["label"])),
    ];
    let wrong = [
        ("cpu_mili", json!(1)),
        ("gpu_slice", json!("5g")),
        ("image", json!("two words")),
        ("cpu_milli", json!(-1)),
        ("ram_mib", json!("x")),
        ("id", json!("mine")),
        ("submitted_at_ms", json!(1)),
        ("class", json!(11)),
        ("max_requeue", json!(101)),
        ("retry_delay_ms", json!("1h")),
        ("at_once", json!(0)),
        ("walltime_ms", json!(0)),
        ("on_disconnect", json!("leave")),
        ("disconnect_stop_after_ms", json!(1)),
        ("pool", json!("nope")),
        ("pool", json!(7)),
        ("tenant", json!("")),
        ("provider", json!("prim")),
        ("nodes", json!({"min": 3, "max": 1})),
        ("tier", json!("fast")),
    ];
    let mut needs = Map::new();
    for _ in 0..random.below(5) {
        let (field, values) = random.of(&known);
        let value = random.of(values.as_array().unwrap()).clone();
        needs.insert((*field).to_owned(), value);
    }
    // One that has to start at once may have ended when it is asked about the next time.
    if needs.get("sensitive") == Some(&json!(true)) {
        needs.insert("immediate".to_owned(), json!(false));
    }
    if random.one_in(8) {
        let (field, value) = random.of(&wrong).clone();
        needs.insert(field.to_owned(), value);
    }
    Value::Object(needs)
}

fn request(random: &mut Random, known_jobs: &[String], keys: &[&str]) -> Value {
    let mut job = json!({ "needs": needs(random), "run": { "command": ["true", "x"] } });
    let mut set = |field: &str, value: Value| drop(job.as_object_mut().unwrap().insert(field.into(), value));
    if random.one_in(3) {
        set("workload", json!(random.of(&["plain", "rich", "rich", "bare", "nothing"])));
        if random.one_in(2) {
            set("run", json!({ "env": { "OWN": "1" } }));
        }
    }
    if random.one_in(12) {
        let runs = [
            json!({}),
            json!({ "command": [""] }),
            json!({ "image": "alpine" }),
            json!({ "module": "m.wasm", "timeout_ms": 5 }),
            json!({ "command": ["x"], "timeout_ms": 0 }),
            json!({ "command": ["x"], "env": { "A=B": "" } }),
        ];
        set("run", random.of(&runs).clone());
    }
    if random.one_in(4) {
        set("name", json!(random.of(&["n", "other", "bad\u{7}"])));
    }
    if random.one_in(3) {
        let mut names: Vec<&str> = known_jobs.iter().map(String::as_str).collect();
        names.extend(keys);
        names.push("99999");
        let kinds = ["success", "failure", "any", "corresponding", "mutex"];
        let edges: Vec<Value> = (0..=random.below(2))
            .map(|_| json!({ "on": random.of(&names), "kind": random.of(&kinds) }))
            .collect();
        set("depends_on", json!(edges));
        set("join", json!(random.of(&["all", "any"])));
    }
    if random.one_in(4) {
        set("not_before_ms", json!(random.of(&[0_u64, 1, 4_000_000_000_000, u64::MAX])));
    }
    if random.one_in(4) {
        set("hold", json!(true));
    }
    if random.one_in(6) {
        let ranges = [(1, 3, 1), (0, 90, 10), (5, 1, 1), (1, 5, 0), (0, 4_000_000_000_u32, 1)];
        let (first, last, step) = random.of(&ranges);
        set("array", json!({ "first": first, "last": last, "step": step }));
    }
    if random.one_in(40) {
        set("placement", json!({ "max_cost": 5 }));
    }
    job
}

/// What an answer says is wrong; a plan names fields within its own `submit`.
fn complaint(body: &Value) -> [Value; 3] {
    let field = body["field"].as_str().map(|field| field.strip_prefix("submit.").unwrap_or(field));
    [body["code"].clone(), json!(field), body["message"].clone()]
}

/// All that the journal says about the jobs that were accepted.
#[derive(Default)]
struct Accepted {
    jobs: BTreeMap<String, (Job, PoolId, bool)>,
    links: BTreeMap<String, NewJob>,
    /// Arrays that are followed element by element.
    after: BTreeMap<String, BTreeSet<String>>,
}

impl Accepted {
    fn read(store: &mut Sqlite) -> Self {
        let mut all = Self::default();
        let mut seq = 0;
        loop {
            let events = store.events(seq, 1000).unwrap();
            let Some(last) = events.last() else { return all };
            seq = last.seq;
            for stored in events {
                match stored.event {
                    Event::Submitted { job, pool, user_hold } => {
                        all.jobs.insert(job.id.to_string(), (*job, pool, user_hold));
                    }
                    Event::ArraySubmitted { job, pool, user_hold, after, .. } => {
                        let id = job.id.to_string();
                        all.after.insert(id.clone(), after.iter().map(ToString::to_string).collect());
                        all.jobs.insert(id, (*job, pool, user_hold));
                    }
                    Event::Linked(linked) => {
                        all.links.extend(linked.jobs.into_iter().map(|job| (job.id.to_string(), job)));
                    }
                    _ => {}
                }
            }
        }
    }

    /// The real job in the words of a plan; what only the meta record has is taken from there.
    fn as_planned(&self, id: &str, meta: Option<Value>, planned: &PlannedJob) -> PlannedJob {
        let (job, pool, held) = &self.jobs[id];
        let link = self.links.get(id);
        let mut depends_on: Vec<_> = link
            .map(|link| link.edges.iter().map(|edge| json!({"on": edge.on, "kind": edge.kind})).collect())
            .unwrap_or_default();
        let after = self.after.get(id).into_iter().flatten();
        depends_on.extend(after.map(|on| json!({"on": on, "kind": "corresponding"})));
        let retry_at = job.retry_at.map(|at| u64::try_from(at.as_millis()).unwrap());
        // An instant in the past says nothing.
        let passed =
            planned.not_before_ms.filter(|at| *at <= u64::try_from(job.submitted_at.as_millis()).unwrap());
        let meta =
            meta.unwrap_or_else(|| json!({"name": planned.name, "run": planned.run, "array": planned.array}));
        serde_json::from_value(json!({
            "id": planned.id, "key": planned.key, "name": meta["name"], "run": meta["run"], "array": meta["array"],
            "pool": pool, "tenant": job.spec.tenant, "needs": Needs::of(&job.spec), "depends_on": depends_on,
            "join": link.map_or(planned.join, |link| link.join), "not_before_ms": retry_at.or(passed), "held": held,
        }))
        .unwrap()
    }
}

fn seed() -> u64 {
    let given = std::env::var("LANDFALL_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| std::hash::RandomState::new().build_hasher().finish())
}

#[tokio::test]
async fn what_a_plan_says_is_what_submitting_does() {
    let seed = seed();
    let mut random = Random(seed);
    let pool =
        |id: &str, dispatch| PoolConfig { pool: Pool::new(PoolId::new(id).unwrap(), dispatch), policy: None };
    let pools = vec![pool("default", Dispatch::Push), pool("lab", Dispatch::Batch)];
    let server = Server::start_with(|config| config.pools = pools).await;
    server.node("n1").await;
    assert_eq!(server.put("/tenants/b", json!({ "quota": { "max_jobs": 20 } })).await.0, 200);
    let of_a = server.token(json!({ "name": "of-a", "role": "submitter", "tenant": "a" })).await;
    for (name, template) in [
        ("plain", json!({ "needs": { "cpu_milli": 500 }, "run": { "command": ["sleep", "9"] } })),
        (
            "rich",
            json!({ "name": "from-rich", "needs": { "pool": "lab", "tenant": "b", "ram_mib": "2GiB", "class": 7 },
                "run": { "image": "alpine", "env": { "A": "1", "OWN": "0" }, "timeout_ms": 9000 } }),
        ),
        ("bare", json!({})),
    ] {
        let (status, body) = server.put(&format!("/workloads/{name}"), template).await;
        assert_eq!(status, 200, "{body}");
    }
    let mut jobs: Vec<String> = Vec::new();
    let mut made: Vec<(String, PlannedJob, usize)> = Vec::new();
    let (mut accepted, mut refused) = (0, 0);
    for case in 0..CASES {
        let token = if random.one_in(2) { &server.admin } else { &of_a };
        let several = random.one_in(6);
        let recent = &jobs[jobs.len().saturating_sub(6)..];
        let (asked, planned, route, body) = if several {
            let keys = ["k0", "k1"];
            let mut dag: Vec<Value> = (0..2).map(|_| request(&mut random, recent, &keys)).collect();
            for (job, key) in dag.iter_mut().zip(keys) {
                job["key"] = json!(if random.one_in(30) { "k0" } else { key });
            }
            (json!({ "jobs": dag }), json!({ "jobs": dag }), "/dags", dag)
        } else {
            let job = request(&mut random, recent, &[]);
            (job.clone(), json!({ "submit": job }), "/jobs", vec![job])
        };
        let post = |path: &str, body: &Value| answer(server.request(Method::POST, path, token).json(body));
        let (plan_status, plan) = post("/plan", &planned).await;
        let (status, done) = post(route, &asked).await;
        let told = format!("seed {seed}, case {case}: {body:?}\nplanned: {plan}\nsubmitted: {done}");
        if plan_status != 200 {
            assert_eq!(plan_status, status, "{told}");
            assert_eq!(complaint(&plan), complaint(&done), "{told}");
            refused += 1;
            continue;
        }
        if !plan["refused"].is_null() {
            assert!(status.is_client_error(), "{told}");
            // The ids that the jobs would have got.
            let mut message = plan["refused"]["message"].as_str().unwrap().to_owned();
            for (place, id) in ["planned-1", "planned-2", "planned"].iter().zip([1, 2, 1]) {
                message = message.replace(place, &(jobs.len() + id).to_string());
            }
            assert_eq!(
                [&plan["refused"]["code"], &json!(message)],
                [&done["code"], &done["message"]],
                "{told}"
            );
            refused += 1;
            continue;
        }
        assert_eq!(status, 201, "{told}");
        accepted += 1;
        let planned: Vec<PlannedJob> = serde_json::from_value(plan["submitted"].clone()).unwrap();
        let ids: Vec<String> = match done["jobs"].as_array() {
            Some(jobs) => jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect(),
            None => vec![done["id"].as_str().unwrap().to_owned()],
        };
        assert_eq!(planned.len(), ids.len(), "{told}");
        let real: BTreeMap<&str, &String> = planned.iter().map(|job| job.id.as_str()).zip(&ids).collect();
        for (planned, id) in planned.iter().zip(&ids) {
            let mut planned = planned.clone();
            for edge in &mut planned.depends_on {
                if let Some(id) = real.get(edge.on.as_str()) {
                    edge.on = (*id).clone();
                }
            }
            planned.depends_on.sort_by_key(|edge| format!("{edge:?}"));
            made.push((id.clone(), planned, case));
        }
        jobs.extend(ids);
    }
    assert!(
        accepted > CASES / 10 && refused > CASES / 10,
        "seed {seed}: {accepted} accepted, {refused} refused"
    );
    let dir = server.stop().await;
    let mut store = Sqlite::open(dir.path()).unwrap();
    let journal = Accepted::read(&mut store);
    for (id, planned, case) in made {
        let meta = store.get(Table::Jobs, &id).unwrap().map(|bytes| serde_json::from_slice(&bytes).unwrap());
        let mut real = journal.as_planned(&id, meta, &planned);
        real.depends_on.sort_by_key(|edge| format!("{edge:?}"));
        assert_eq!(planned, real, "seed {seed}, case {case}, job {id}");
    }
}

#[tokio::test]
async fn mistakes_in_needs_name_the_field_and_what_was_meant() {
    let server = Server::start().await;
    for (needs, field, message, hint) in [
        (json!({ "cpu_mill": 1 }), "cpu_mill", "unknown field `cpu_mill`", "did you mean `cpu_milli`?"),
        (json!({ "id": "x" }), "id", "`id` is set by the server", "leave it out"),
        (json!({ "tier": "FASTT" }), "tier", "unknown value `FASTT`", "did you mean `FAST`?"),
        (json!({ "provider": "prim" }), "provider", "there is no provider `prim`", "did you mean `prime`?"),
    ] {
        let job = json!({ "needs": needs, "run": { "command": ["true"] } });
        for (path, body) in
            [("/jobs", job.clone()), ("/placement/dry-run", job.clone()), ("/workloads/w", job)]
        {
            let method = if path == "/workloads/w" { Method::PUT } else { Method::POST };
            let (status, error) = answer(server.request(method, path, &server.admin).json(&body)).await;
            assert_eq!(status, 422, "{path}: {error}");
            let said = json!({ "code": "invalid_needs", "field": format!("needs.{field}"), "message": message, "hint": hint });
            assert_eq!(error, said, "{path}");
        }
    }
}

#[tokio::test]
async fn workloads_of_other_versions_are_used_or_named() {
    let dir = Server::start().await.stop().await;
    let template = |text: &str| text.as_bytes().to_vec();
    let mut store = Sqlite::open(dir.path()).unwrap();
    let mut batch = Batch { epoch: 1, ..Batch::default() };
    let nulls = r#"{"needs":{"ram_mib":null,"cpu_milli":"2 cores","walltime_ms":"2h"},"run":{"command":["true"]},"join":"all","hold":false}"#;
    batch.changes.push(Change::put(Table::Workloads, "nulls", template(nulls)));
    batch.changes.push(Change::put(Table::Workloads, "newer", template(r#"{"needs":{"qubits":3}}"#)));
    store.append(&batch).unwrap();
    drop(store);
    let server = Server::start_in(dir, |_| {}).await;
    let (status, submitted) = server.post("/jobs", json!({ "workload": "nulls", "hold": true })).await;
    assert_eq!(status, 201, "{submitted}");
    let (_, job) = server.get(&format!("/jobs/{}", submitted["id"].as_str().unwrap())).await;
    assert_eq!(
        (&job["needs"]["cpu_milli"], &job["needs"]["walltime_ms"]),
        (&json!(2000), &json!(7_200_000)),
        "{job}"
    );
    let (status, error) = server.post("/jobs", json!({ "workload": "newer" })).await;
    assert_eq!((status.as_u16(), &error["code"]), (422, &json!("unreadable_workload")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("qubits"), "{error}");
    let (status, fixed) = server.put("/workloads/newer", json!({ "run": { "command": ["true"] } })).await;
    assert_eq!(status, 200, "{fixed}");
    assert_eq!(server.post("/jobs", json!({ "workload": "newer" })).await.0, 201);
}
