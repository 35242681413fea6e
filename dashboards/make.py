"""Makes the dashboards for Grafana from the list below: python3 dashboards/make.py"""

import json
import pathlib

HERE = pathlib.Path(__file__).parent
RATE = "$__rate_interval"


def q(text):
    """An expression; the instance is chosen at the top of each dashboard."""
    return text.replace("{}", '{instance=~"$instance"}').replace("{,", '{instance=~"$instance",').replace("RATE", RATE)


def panel(title, expressions, unit="short", kind="timeseries", text="", stack=False):
    return {"title": title, "expressions": expressions, "unit": unit, "kind": kind, "text": text, "stack": stack}


DASHBOARDS = {
    "cluster": ("Landfall: cluster", [
        panel("Nodes ready", [("sum(landfall_nodes{,state=\"ready\"})", "")], kind="stat"),
        panel("Nodes down or silent", [("sum(landfall_nodes{,state=~\"down|unknown\"}) or vector(0)", "")], kind="stat"),
        panel("Jobs that wait", [("sum(landfall_queue_depth{})", "")], kind="stat"),
        panel("Jobs that run", [("sum(landfall_jobs{,state=\"running\"}) or vector(0)", "")], kind="stat"),
        panel("Nodes by state", [("sum by (state) (landfall_nodes{})", "{{state}}")], stack=True),
        panel("Jobs in memory by state", [("sum by (state) (landfall_jobs{})", "{{state}}")]),
        panel("Starts", [("sum by (kind) (rate(landfall_starts_total{}[RATE]))", "{{kind}}")], "ops", text="placements committed per second"),
        panel("Ends", [("sum by (state) (rate(landfall_jobs_ended_total{}[RATE]))", "{{state}}")], "ops"),
        panel("Faults of nodes", [("sum by (kind) (rate(landfall_node_faults_total{}[RATE]))", "{{kind}}")], "ops"),
        panel("Agents connected", [("sum(landfall_agents_connected{})", "agents")]),
    ]),
    "pools": ("Landfall: pools", [
        panel("Jobs that wait", [("sum by (pool) (landfall_queue_depth{})", "{{pool}}")]),
        panel("Jobs submitted", [("sum by (pool) (rate(landfall_jobs_submitted_total{}[RATE]))", "{{pool}}")], "ops"),
        panel("Starts", [("sum by (pool) (rate(landfall_starts_total{}[RATE]))", "{{pool}}")], "ops"),
        panel("Ends that were failures", [("sum by (pool) (rate(landfall_jobs_ended_total{,state=\"failed\"}[RATE]))", "{{pool}}")], "ops"),
        panel("Jobs back in the queue", [("sum by (pool, cause) (rate(landfall_requeues_total{}[RATE]))", "{{pool}} {{cause}}")], "ops"),
        panel("Jobs told to leave", [("sum by (pool, reason) (rate(landfall_preemptions_total{}[RATE]))", "{{pool}} {{reason}}")], "ops"),
        panel("Time to save work", [("histogram_quantile(0.9, sum by (pool, le) (rate(landfall_preemption_checkpoint_seconds_bucket{}[RATE])))", "{{pool}} nine in ten")], "s"),
        panel("Prices raised because many wait", [("sum by (pool) (landfall_surging{})", "{{pool}}")], text="1 while jobs cost more; pools with price.surge"),
        panel("Nodes lent to other pools", [("sum by (pool) (landfall_loans{})", "{{pool}}")]),
        panel("How long jobs ran over how long they were expected to", [("landfall_run_time_ratio{}", "{{pool}} {{part}}")]),
        panel("Services that grew and shrank", [("sum by (pool, direction) (rate(landfall_scale_steps_total{}[RATE]))", "{{pool}} {{direction}}")], "ops"),
    ]),
    "tenants": ("Landfall: tenants", [
        panel("Share of each pool", [("landfall_share_used{}", "{{tenant}} in {{pool}}")], "percentunit"),
        panel("Share of each pool, stacked", [("sum by (tenant) (landfall_share_used{})", "{{tenant}}")], "percentunit", stack=True),
        panel("Mean share over a day", [("avg_over_time(landfall_share_used{}[1d])", "{{tenant}} in {{pool}}")], "percentunit"),
        panel("Spent within the budget's window", [("sum by (tenant) (landfall_tenant_spent{})", "{{tenant}}")], text="where pools have prices"),
        panel("Spent of the budget", [("sum by (tenant) (landfall_tenant_spent{}) / sum by (tenant) (landfall_tenant_budget{} > 0)", "{{tenant}}")], "percentunit", text="tenants with a budget; at 1 nothing more of theirs starts"),
    ]),
    "decisions": ("Landfall: decisions", [
        panel("Proposals", [("sum by (result) (rate(landfall_proposals_total{}[RATE]))", "{{result}}")], "ops"),
        panel("Refused by the ledger", [("sum(rate(landfall_proposals_total{,result=\"rejected\"}[RATE])) / sum(rate(landfall_proposals_total{}[RATE]))", "share")], "percentunit"),
        panel("How placements came about", [("sum by (kind) (rate(landfall_starts_total{}[RATE]))", "{{kind}}")], "ops", stack=True),
        panel("Promises that moved", [("sum by (pool, cause) (rate(landfall_reservations_moved_total{}[RATE]))", "{{pool}} {{cause}}")], "ops"),
        panel("Time of one step of the engine", [("sum(rate(landfall_engine_step_seconds_total{}[RATE])) / sum(rate(landfall_engine_steps_total{}[RATE]))", "mean")], "s"),
        panel("Share of a second spent deciding", [("sum(rate(landfall_engine_step_seconds_total{}[RATE]))", "engine")], "percentunit"),
    ]),
    "service": ("Landfall: health of the service", [
        panel("Requests", [("sum by (status) (rate(landfall_http_requests_total{}[RATE]))", "{{status}}")], "reqps"),
        panel("Time of answers, 99 of 100", [("histogram_quantile(0.99, sum by (le, route) (rate(landfall_http_request_seconds_bucket{}[RATE])))", "{{route}}")], "s"),
        panel("Errors of the server", [("sum(rate(landfall_http_requests_total{,status=~\"5..\"}[RATE])) or vector(0)", "5xx")], "reqps"),
        panel("Requests being answered", [("sum(landfall_http_requests_in_flight{})", "in flight")]),
        panel("Time of one commit", [("sum(rate(landfall_journal_append_seconds_total{}[RATE])) / sum(rate(landfall_journal_appends_total{}[RATE]))", "mean")], "s"),
        panel("Events stored", [("sum(rate(landfall_journal_events_total{}[RATE]))", "events")], "ops"),
        panel("Commits that failed", [("sum(increase(landfall_journal_append_failures_total{}[1h]))", "last hour")]),
        panel("Commands to agents", [("sum(rate(landfall_commands_total{}[RATE]))", "commands")], "ops"),
        panel("Wall clock ahead of the server's time", [("landfall_clock_offset_seconds{}", "offset")], "s"),
        panel("Jumps of the wall clock", [("sum(increase(landfall_clock_jumps_total{}[1d]))", "last day")]),
        panel("Silent nodes that keep their jobs", [("sum by (pool) (landfall_requeue_limited_nodes{})", "{{pool}}")]),
        panel("Snapshots", [("sum(increase(landfall_snapshots_total{}[1d]))", "last day")]),
    ]),
    "placement": ("Landfall: placement among peers", [
        panel("Requests and offers", [("sum by (instance) (rate(landfall_placement_requests_received_total{}[RATE]))", "requests at {{instance}}"), ("sum by (instance) (rate(landfall_placement_offers_sent_total{}[RATE]))", "offers of {{instance}}")], "ops"),
        panel("Offers per request", [("sum(rate(landfall_placement_offers_sent_total{}[RATE])) / sum(rate(landfall_placement_requests_received_total{}[RATE]))", "offers")], text="near 0: nobody fits, see the declines"),
        panel("Offers received", [("sum by (result) (rate(landfall_placement_offers_received_total{}[RATE]))", "{{result}}")], "ops"),
        panel("Scores", [("sum by (le) (rate(landfall_placement_score_bucket{,role=\"arbiter\"}[RATE]))", "{{le}}")], kind="heatmap", text="of accepted offers, by the arbiter"),
        panel("Time to place", [(f"histogram_quantile({share}, sum by (le) (rate(landfall_placement_duration_seconds_bucket{{}}[RATE])))", name) for share, name in ((0.5, "half"), (0.95, "95 of 100"), (0.99, "99 of 100"))], "s", text="near 1 s is usual; steps of 0.5 s are silent winners"),
        panel("Wins and losses", [("sum by (instance) (rate(landfall_placement_wins_total{}[RATE]))", "won by {{instance}}"), ("sum by (instance) (rate(landfall_placement_losses_total{}[RATE]))", "lost by {{instance}}")], "ops"),
        panel("Share of wins", [("sum by (instance) (rate(landfall_placement_wins_total{}[RATE])) / ignoring (instance) group_left sum(rate(landfall_placement_wins_total{}[RATE]))", "{{instance}}")], "percentunit", stack=True),
        panel("Declines", [("sum by (reason) (rate(landfall_placement_declines_total{}[RATE]))", "{{reason}}")], "ops"),
        panel("Jobs that failed", [("sum by (reason) (rate(landfall_placement_failures_total{}[RATE]))", "{{reason}}")], "ops"),
        panel("Messages dropped", [("sum by (reason) (rate(landfall_placement_messages_rejected_total{}[RATE]))", "{{reason}}")], "ops"),
        panel("Leases lost", [("sum(increase(landfall_placement_lease_losses_total{}[1h]))", "last hour")]),
        panel("What peers did", [("sum by (deed) (increase(landfall_placement_deeds_total{}[1h]))", "{{deed}}")], text="promises kept, and what counts against peers"),
        panel("Messages", [("sum by (direction) (rate(landfall_placement_messages_total{}[RATE]))", "{{direction}}")], "ops"),
    ]),
}


def made(number, spec, stats):
    wide, high = (6, 4) if spec["kind"] == "stat" else (12, 8)
    column, row = (number % 4 * 6, 0) if spec["kind"] == "stat" else ((number - stats) % 2 * 12, (4 if stats else 0) + (number - stats) // 2 * 8)
    custom = {"fillOpacity": 15 if spec["stack"] else 0, "stacking": {"mode": "normal" if spec["stack"] else "none"}}
    targets = [
        {"datasource": {"type": "prometheus", "uid": "${source}"}, "expr": q(expression), "legendFormat": legend or "__auto", "refId": chr(65 + place)}
        for place, (expression, legend) in enumerate(spec["expressions"])
    ]
    return {
        "id": number + 1, "type": spec["kind"], "title": spec["title"], "description": spec["text"],
        "datasource": {"type": "prometheus", "uid": "${source}"}, "gridPos": {"x": column, "y": row, "w": wide, "h": high},
        "fieldConfig": {"defaults": {"unit": spec["unit"], "min": 0, "custom": custom} if spec["kind"] == "timeseries" else {"unit": spec["unit"]}, "overrides": []},
        "targets": targets,
    }


def dashboard(name, title, specs):
    stats = sum(spec["kind"] == "stat" for spec in specs)
    return {
        "uid": f"landfall-{name}", "title": title, "tags": ["landfall"], "timezone": "browser", "schemaVersion": 39, "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"}, "editable": True,
        "links": [{"type": "dashboards", "tags": ["landfall"], "title": "Landfall", "asDropdown": True}],
        "templating": {"list": [
            {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
            {"name": "instance", "type": "query", "label": "Server", "datasource": {"type": "prometheus", "uid": "${source}"},
             "query": {"query": "label_values(landfall_engine_steps_total, instance)", "refId": "instances"}, "includeAll": True, "multi": True,
             "current": {"text": "All", "value": "$__all"}, "refresh": 2},
        ]},
        "panels": [made(number, spec, stats) for number, spec in enumerate(specs)],
    }


for name, (title, specs) in DASHBOARDS.items():
    (HERE / f"{name}.json").write_text(json.dumps(dashboard(name, title, specs), indent=1) + "\n")
