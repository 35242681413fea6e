//! A server that others can reach: TLS, and tokens that are good for one thing.

use crate::stand::Stand;

/// Makes a token for an agent and starts the agent with it.
fn agent_with_token(stand: &mut Stand, node: &str, token_of: &str) {
    let token = stand.path(&format!("{token_of}.token"));
    let token = token.to_str().unwrap();
    if !std::path::Path::new(token).exists() {
        stand.run(&["token", "create", token_of, "--role", "agent", "--node", token_of, "--out", token]).ok();
    }
    stand.agent_with(node, node, token, &[]);
}

#[test]
fn jobs_run_over_tls_with_tokens_that_may_do_no_more_than_needed() {
    let mut stand = Stand::secured();
    agent_with_token(&mut stand, "n1", "n1");
    stand.until("n1 is ready", || stand.run(&["node", "n1", "--json"]).out.contains("\"ready\""));
    let id = stand.submit(&["--", "sh", "-c", "echo $LANDFALL_NODE_ID; env | grep -c TOKEN"]);
    assert_eq!(stand.wait_for(&id, &["completed", "failed"])["exit_code"], 1, "no token is found there");
    assert_eq!(stand.run(&["logs", &id]).ok(), "n1\n0\n");
    // An agent speaks for its own node alone.
    agent_with_token(&mut stand, "n2", "n1");
    let mut second = stand.agent_process("n2");
    let mut code = None;
    stand.until("n2 is refused", || {
        code = second.ended();
        code.is_some()
    });
    assert_eq!(code, Some(8), "{}", stand.log("n2"));
    assert!(stand.log("n2").contains("n1"), "it says whose the token is: {}", stand.log("n2"));
    // And does nothing that people do.
    let token = stand.path("n1.token");
    for not_for_agents in [vec!["submit", "--", "true"], vec!["drain", "n1"], vec!["token", "list"]] {
        let mut command = stand.command();
        let output = command.args(&not_for_agents).env("LANDFALL_TOKEN_FILE", &token).output().unwrap();
        assert_eq!(output.status.code(), Some(8), "{not_for_agents:?}");
    }
}

#[test]
fn a_server_that_cannot_be_trusted_is_not_talked_to() {
    let stand = Stand::secured();
    let mut command = stand.command();
    let output = command.args(["status"]).env("LANDFALL_CONFIG", "/dev/null").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("certificate") && said.contains("ca-file"), "{said}");
}
