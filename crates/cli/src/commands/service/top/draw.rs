//! How it looks: a function of what is known and selected.

use landfall_api::node::NodeView;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, TableState, Wrap};

use super::state::{Mode, Pane, Screen};
use crate::render::clock::{cores, mib, span};
use crate::render::service::jobs::{needs, standing, title};
use crate::render::text::{clean, count};

/// A screen smaller than this shows the list that keys go to, and nothing else.
const SMALL: (u16, u16) = (60, 18);

pub(super) fn screen(frame: &mut Frame<'_>, screen: &Screen) {
    let area = frame.area();
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)]).areas(area);
    frame.render_widget(headline(screen), head);
    frame.render_widget(footline(screen), foot);
    if area.width < SMALL.0 || area.height < SMALL.1 {
        match screen.pane {
            Pane::Jobs => jobs(frame, body, screen),
            Pane::Nodes => nodes(frame, body, screen),
        }
    } else {
        // A fleet of a few machines needs only a few lines.
        let rows = u16::try_from(screen.nodes().len()).unwrap_or(u16::MAX).saturating_add(3);
        let height = rows.min(body.height / 4).max(4);
        let why_height = (body.height / 4).clamp(5, 9);
        let [top, middle, bottom] = Layout::vertical([
            Constraint::Min(5),
            Constraint::Length(height),
            Constraint::Length(why_height),
        ])
        .areas(body);
        jobs(frame, top, screen);
        nodes(frame, middle, screen);
        why(frame, bottom, screen);
    }
    if let Mode::Confirm(id) = &screen.mode {
        question(frame, area, id);
    }
}

fn headline(screen: &Screen) -> Line<'static> {
    let known = &screen.known;
    let mut spans = vec![Span::styled("landfall ", strong()), Span::raw(clean(&known.server))];
    if let Some(status) = &known.status {
        let number =
            |map: &std::collections::BTreeMap<String, u64>, state: &str| map.get(state).copied().unwrap_or(0);
        spans.push(Span::raw(format!(
            "  {} running, {} waiting, {} ready, up {}",
            number(&status.jobs, "running"),
            number(&status.jobs, "pending"),
            count(number(&status.nodes, "ready"), "node"),
            span(status.now_ms.saturating_sub(status.started_at_ms) / 1000 * 1000)
        )));
        for (pool, waiting) in status.pools.iter().filter(|_| status.pools.len() > 1) {
            spans.push(Span::styled(format!("  {}: {waiting}", clean(pool)), dim()));
        }
    }
    Line::from(spans)
}

fn footline(screen: &Screen) -> Line<'static> {
    if screen.mode == Mode::Filter {
        return Line::from(vec![
            Span::styled("filter: ", strong()),
            Span::raw(format!("{}▏", clean(&screen.filter))),
        ]);
    }
    if let Some(error) = &screen.known.error {
        return Line::styled(clean(error), Style::new().fg(Color::Red));
    }
    if let Some(message) = &screen.message {
        return Line::styled(clean(message), Style::new().fg(Color::Yellow));
    }
    let mut spans = Vec::new();
    for (key, what) in
        [("q", "quit"), ("↑↓", "select"), ("tab", "jobs/nodes"), ("c", "cancel"), ("/", "filter")]
    {
        spans.push(Span::styled(format!(" {key} "), Style::new().add_modifier(Modifier::REVERSED)));
        spans.push(Span::raw(format!(" {what}  ")));
    }
    if !screen.filter.is_empty() {
        spans.push(Span::styled(format!("filter: {} (esc clears)", clean(&screen.filter)), dim()));
    }
    Line::from(spans)
}

fn block(title: String, active: bool) -> Block<'static> {
    let style = if active { strong() } else { dim() };
    Block::bordered().title(Span::styled(format!(" {title} "), style)).border_style(if active {
        Style::new()
    } else {
        dim()
    })
}

fn jobs(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let jobs = screen.jobs();
    let wide = area.width >= 90;
    let now = screen.known.at_ms;
    let row = |job: &&landfall_api::job::JobView| {
        let since = job.started_at_ms.unwrap_or(job.submitted_at_ms);
        let mut cells = vec![
            Cell::from(clean(&job.id)),
            Cell::from(Span::styled(clean(&job.state), colour(&job.state))),
            Cell::from(clean(&title(job))),
            Cell::from(span(now.saturating_sub(since) / 1000 * 1000)),
        ];
        if wide {
            cells.extend([Cell::from(clean(&job.pool)), Cell::from(clean(&needs(&job.needs)))]);
        }
        cells.push(Cell::from(clean(&standing(job))));
        Row::new(cells)
    };
    let ids = jobs.iter().map(|job| job.id.chars().count());
    let names = jobs.iter().map(|job| title(job).chars().count());
    let mut widths = vec![
        widest(ids, 3, 14),
        Constraint::Length(11),
        // Why it waits needs the room more than its name does.
        widest(names, 4, area.width / 4),
        Constraint::Length(11),
    ];
    let mut titles = vec!["job", "state", "name", "since"];
    if wide {
        widths.extend([Constraint::Length(10), Constraint::Length(20)]);
        titles.extend(["pool", "needs"]);
    }
    widths.push(Constraint::Fill(1));
    titles.push("where, or why it waits");
    let active = screen.pane == Pane::Jobs;
    let table = Table::new(jobs.iter().map(row), widths)
        .header(Row::new(titles).style(dim()))
        .row_highlight_style(highlight(active))
        .block(block(format!("jobs ({})", jobs.len()), active));
    let mut state = TableState::default().with_selected(screen.row(Pane::Jobs));
    frame.render_stateful_widget(table, area, &mut state);
}

/// A column as wide as the widest of its cells, within bounds.
fn widest(cells: impl Iterator<Item = usize>, least: u16, most: u16) -> Constraint {
    let widest = u16::try_from(cells.max().unwrap_or(0)).unwrap_or(most);
    Constraint::Length(widest.clamp(least, most.max(least)))
}

fn nodes(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let nodes = screen.nodes();
    let cpu = |node: &NodeView| {
        let bar = bar(node.cpu_committed_milli, node.cpu_milli, 10);
        format!("{bar} {} of {}", cores(node.cpu_committed_milli), cores(node.cpu_milli))
    };
    let memory = |node: &NodeView| {
        let bar = bar(node.ram_committed_mib, node.ram_mib, 6);
        format!("{bar} {} of {}", mib(node.ram_committed_mib), mib(node.ram_mib))
    };
    let row = |node: &&NodeView| {
        Row::new(vec![
            Cell::from(clean(&node.id)),
            Cell::from(Span::styled(clean(&node.state), colour(&node.state))),
            Cell::from(cpu(node)),
            Cell::from(memory(node)),
            Cell::from(gpus(node)),
            Cell::from(node.jobs.len().to_string()),
        ])
    };
    let widths = [
        widest(nodes.iter().map(|node| node.id.chars().count()), 4, area.width / 4),
        Constraint::Length(9),
        widest(nodes.iter().map(|node| cpu(node).chars().count()), 12, 24),
        widest(nodes.iter().map(|node| memory(node).chars().count()), 12, 30),
        Constraint::Fill(1),
        Constraint::Length(5),
    ];
    let active = screen.pane == Pane::Nodes;
    let table = Table::new(nodes.iter().map(row), widths)
        .header(Row::new(vec!["node", "state", "cpu", "memory", "gpus", "jobs"]).style(dim()))
        .row_highlight_style(highlight(active))
        .block(block(format!("nodes ({})", nodes.len()), active));
    let mut state = TableState::default().with_selected(screen.row(Pane::Nodes));
    frame.render_stateful_widget(table, area, &mut state);
}

/// GPUs of a node, one character each: how much of the device is taken.
fn gpus(node: &NodeView) -> String {
    const STEPS: [char; 5] = ['·', '▂', '▄', '▆', '█'];
    let one = |gpu: &landfall_api::node::GpuView| {
        let memory = gpu.vram_mib.filter(|all| *all > 0).map_or(0, |all| gpu.vram_committed_mib * 1000 / all);
        let taken = gpu.milli_committed.max(memory).max(if gpu.holder.is_some() { 1000 } else { 0 });
        STEPS[usize::try_from(taken.min(1000).div_ceil(250)).unwrap_or(4)]
    };
    node.gpus.iter().map(one).collect()
}

/// How much of something is taken.
fn bar(used: u64, all: u64, width: u64) -> String {
    let filled = (used.min(all) * width).checked_div(all).unwrap_or(0);
    let filled = if used > 0 { filled.max(1) } else { 0 };
    let (full, empty) = (usize::try_from(filled).unwrap_or(0), usize::try_from(width - filled).unwrap_or(0));
    format!("{}{}", "█".repeat(full), "░".repeat(empty))
}

fn why(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let selected = screen.selected_job();
    let text = match (selected, &screen.known.why) {
        (None, _) => "no job is selected".to_owned(),
        (Some(job), Some((id, why))) if *id == job.id => clean(why),
        (Some(_), _) => "…".to_owned(),
    };
    let title = selected.map_or_else(|| "why".to_owned(), |job| format!("job {}: why", clean(&job.id)));
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }).block(block(title, false)), area);
}

fn question(frame: &mut Frame<'_>, area: Rect, id: &str) {
    let text = format!("cancel job {}? y cancels, any other key not", clean(id));
    let width = u16::try_from(text.chars().count() + 2).unwrap_or(u16::MAX).min(area.width);
    let height = 3.min(area.height);
    let at =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, at);
    frame.render_widget(
        Paragraph::new(text).block(Block::bordered().border_style(Style::new().fg(Color::Yellow))),
        at,
    );
}

fn colour(state: &str) -> Style {
    match state {
        "running" | "ready" => Style::new().fg(Color::Green),
        "failed" | "down" => Style::new().fg(Color::Red),
        "pending" | "suspended" | "stopping" | "checkpointing" | "degraded" | "unknown" | "draining" => {
            Style::new().fg(Color::Yellow)
        }
        _ => Style::new(),
    }
}

fn highlight(active: bool) -> Style {
    if active {
        Style::new().add_modifier(Modifier::REVERSED)
    } else {
        Style::new().add_modifier(Modifier::UNDERLINED)
    }
}

fn strong() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

#[cfg(test)]
pub(super) mod tests {
    use landfall_api::job::{JobView, OnNode, RunSpec};
    use landfall_api::node::GpuView;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    use super::super::state::Known;
    use super::*;

    fn job(id: &str, name: &str, state: &str, node: Option<&str>) -> JobView {
        let serde_json::Value::Object(needs) = json!({"cpu_milli": 1000}) else { panic!("no object") };
        JobView {
            id: id.into(),
            name: Some(name.into()),
            array: None,
            elements: None,
            state: state.into(),
            why: None,
            reason: node.is_none().then(|| "no_capacity_now".into()),
            pool: "default".into(),
            tenant: None,
            submitter: None,
            needs,
            run: RunSpec::default(),
            attempt: 1,
            held: false,
            waits_for: None,
            dag: None,
            submitted_at_ms: 1000,
            started_at_ms: node.map(|_| 2000),
            ended_at_ms: None,
            nodes: node
                .into_iter()
                .map(|node| OnNode {
                    node: node.into(),
                    cpus: None,
                    gpus: vec![0],
                    phase: "started".into(),
                    exit_code: None,
                })
                .collect(),
            exit_code: None,
            usage: None,
            price: None,
            files: None,
            note: None,
            version: String::new(),
        }
    }

    fn node() -> NodeView {
        let gpu = |index, taken| GpuView {
            index,
            model: None,
            vram_mib: Some(1000),
            capability: None,
            vram_committed_mib: taken,
            milli_committed: 0,
            holder: None,
            slices: None,
        };
        NodeView {
            id: "box".into(),
            pool: "default".into(),
            state: "ready".into(),
            approval: "approved".into(),
            accepting: true,
            region: None,
            heard_at_ms: 0,
            since_ms: 0,
            cpu_milli: 4000,
            cpu_committed_milli: 2000,
            ram_mib: 8192,
            ram_committed_mib: 0,
            gpus: vec![gpu(0, 1000), gpu(1, 300), gpu(2, 0)],
            runtimes: Vec::new(),
            jobs: vec!["1".into()],
            karma: 0,
            cooldown_until_ms: None,
            cpu_usage_pct: None,
            ram_free_mib: None,
            disk_mb_s: None,
            network_mbit_s: None,
            performance_estimates: None,
            agent_version: None,
            platform: "desktop".into(),
            block: None,
            group: None,
            lent_to: None,
            fingerprint: None,
            drifted: false,
            thermal: None,
            battery_pct: None,
            charging: None,
            power_w: None,
            cache: Vec::new(),
            images: Vec::new(),
            doubted: Vec::new(),
            limits: None,
            why: None,
            maintenance_at_ms: None,
            connected: true,
            hollow: false,
        }
    }

    /// Two jobs that wait, one that runs, one node.
    pub(in super::super) fn sample() -> Screen {
        let jobs = vec![
            job("3", "report", "pending", None),
            job("2", "eval", "pending", None),
            job("1", "train", "running", Some("box")),
        ];
        let why = Some(("1".to_owned(), "runs in pool default\n  on          box".to_owned()));
        Screen::new(Known {
            server: "http://127.0.0.1:7878".into(),
            jobs,
            nodes: vec![node()],
            why,
            at_ms: 65_000,
            ..Known::default()
        })
    }

    fn drawn(state: &Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen(frame, state)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
        (0..height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn a_large_screen_shows_jobs_nodes_and_why() {
        let text = drawn(&sample(), 120, 30);
        for part in [
            "landfall http://127.0.0.1:7878",
            "jobs (3)",
            "nodes (1)",
            "job 1: why",
            "on          box",
            "q  quit",
        ] {
            assert!(text.contains(part), "`{part}` is not in\n{text}");
        }
        assert!(text.contains("█████░░░░░ 2 of 4"), "{text}");
        assert!(text.contains("█▄·"), "{text}");
        assert!(text.contains("no node has room"), "{text}");
        let place = |part: &str| text.find(part).unwrap();
        assert!(place("train") < place("report"), "what runs comes first\n{text}");
    }

    #[test]
    fn a_question_is_read_to_its_end_and_a_terminal_shows_a_page_of_jobs() {
        let mut state = sample();
        state.mode = Mode::Confirm("1234567.0000042".into());
        let text = drawn(&state, 80, 24);
        assert!(text.contains("cancel job 1234567.0000042? y cancels, any other key not"), "{text}");
        let mut state = sample();
        state.known.jobs =
            (1..30).map(|id| job(&id.to_string(), &format!("sim-{id}-"), "pending", None)).collect();
        state.known.nodes = vec![node(); 6];
        let text = drawn(&state, 80, 24);
        assert!(text.matches("sim-").count() >= 7, "{text}");
        // Names of nodes are not cut while there is room.
        state.known.nodes = vec![NodeView { id: "machine-1".into(), ..node() }];
        assert!(drawn(&state, 80, 24).contains("│machine-1 ready"), "{text}");
    }

    #[test]
    fn an_array_is_one_row_and_who_waits_longest_comes_first() {
        let element = |index: u32, state: &str| landfall_api::job::JobView {
            array: Some(landfall_api::job::ElementView { id: "8".into(), index, entry: None }),
            ..job(&format!("8.{index}"), "sweep", state, (state == "running").then_some("box"))
        };
        let waiting = landfall_api::job::JobView { elements: Some(96), ..job("8", "sweep", "pending", None) };
        let mut all = vec![job("9", "late", "pending", None), waiting];
        all.extend([element(4, "pending"), element(2, "running"), element(1, "running")]);
        all.push(job("7", "early", "pending", None));
        let mut state = sample();
        state.learn(Known { jobs: super::super::state::folded(all), ..Known::default() });
        let text = drawn(&state, 120, 30);
        assert!(text.contains("jobs (3)") && text.contains("2 running, 97 waiting"), "{text}");
        let place = |part: &str| text.find(part).unwrap();
        assert!(place("sweep") < place("early") && place("early") < place("late"), "{text}");
    }

    #[test]
    fn a_small_screen_shows_what_keys_go_to() {
        let mut state = sample();
        let text = drawn(&state, 40, 8);
        assert!(text.contains("jobs (3)") && !text.contains("nodes (1)"), "{text}");
        state.pane = Pane::Nodes;
        let text = drawn(&state, 40, 8);
        assert!(text.contains("nodes (1)") && !text.contains("jobs (3)"), "{text}");
    }

    #[test]
    fn no_screen_is_too_small() {
        let mut state = sample();
        for mode in [Mode::Look, Mode::Filter, Mode::Confirm("1".into())] {
            state.mode = mode;
            for (width, height) in [(1, 1), (2, 2), (10, 3), (60, 18), (300, 4), (5, 100)] {
                drawn(&state, width, height);
            }
        }
    }

    #[test]
    fn names_cannot_draw_elsewhere() {
        let mut state = sample();
        state.known.jobs[0].name = Some("\u{1b}[2Jx".into());
        assert!(!drawn(&state, 120, 30).contains('\u{1b}'));
    }

    #[test]
    fn bars_are_never_empty_when_something_is_taken() {
        assert_eq!(bar(0, 10, 4), "░░░░");
        assert_eq!(bar(1, 1000, 4), "█░░░");
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(5, 0, 4), "█░░░");
    }
}
