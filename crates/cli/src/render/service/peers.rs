//! Peers, and what became of a negotiation.

use landfall_api::answer::PlanView;
use landfall_api::peer::{NegotiationView, OfferView, PeerFacts};

use super::super::style::{BAD, DIM, GOOD, STRONG};
use super::super::table::{Cell, Table};
use super::super::text::{clean, count, labelled};
use crate::answer::Page;
use crate::commands::service::peers::{Listed, One, Own};

/// The end of an id: all begin alike.
pub(crate) fn short(id: &str) -> String {
    let letters: Vec<char> = id.chars().collect();
    match letters.len() {
        0..=16 => id.to_owned(),
        all => format!("…{}", letters[all - 10..].iter().collect::<String>()),
    }
}

fn trust(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value}"))
}

fn cores(milli: u64) -> String {
    format!("{}", milli as f64 / 1000.0)
}

fn free(facts: &PeerFacts) -> [String; 2] {
    [
        format!("{}/{}", cores(facts.cpu_free_milli), cores(facts.cpu_milli)),
        format!("{}/{}", facts.ram_free_mib, facts.ram_mib),
    ]
}

pub(crate) fn list(listed: &Listed, _: Page) -> String {
    if listed.peers.is_empty() {
        return "no other peer is known; `landfall peers add ADDRESS` gets in touch with one\n".to_owned();
    }
    let mut table = Table::of(&[
        "peer",
        ">trust",
        "line",
        ">rtt ms",
        ">cores free",
        ">MiB free",
        ">running",
        ">queued",
        "note",
    ]);
    for peer in &listed.peers {
        let line = if peer.blocked {
            "blocked"
        } else if peer.connected {
            "connected"
        } else {
            "-"
        };
        let [cpu, ram] = peer.facts.as_ref().map(free).unwrap_or_else(|| ["-", "-"].map(str::to_owned));
        let number = |of: fn(&PeerFacts) -> u64| {
            peer.facts.as_ref().map_or("-".to_owned(), |facts| of(facts).to_string())
        };
        table.row(vec![
            Cell::from(&peer.id),
            trust(peer.trust).into(),
            line.into(),
            peer.rtt_ms.map_or("-".to_owned(), |ms| ms.to_string()).into(),
            cpu.into(),
            ram.into(),
            number(|facts| facts.running).into(),
            number(|facts| facts.queued).into(),
            peer.note.clone().unwrap_or_default().into(),
        ]);
    }
    table.render()
}

pub(crate) fn accounts(listed: &Listed, _: Page) -> String {
    if listed.peers.is_empty() {
        return "nobody owes anybody anything\n".to_owned();
    }
    let mut table =
        Table::of(&["peer", ">jobs it ran", ">credits due to it", ">jobs run for it", ">credits it owes"]);
    for peer in &listed.peers {
        let account = &peer.account;
        let numbers = [account.bought, account.spent, account.sold, account.earned];
        table.row(
            [peer.id.clone()]
                .into_iter()
                .chain(numbers.map(|number| number.to_string()))
                .map(Cell::from)
                .collect(),
        );
    }
    table.render()
}

pub(crate) fn one(one: &One, page: Page) -> String {
    let peer = &one.peer;
    let mut text = format!("{STRONG}peer {}{STRONG:#}\n", clean(&peer.id));
    let mut line = |label: &str, content: &str| {
        text += &labelled(&format!("  {label:<12} "), &clean(content), page.text_width());
    };
    let why = match peer.trust {
        None => "unknown: it may neither submit here nor run anything of this server; `landfall peers trust`"
            .to_owned(),
        Some(set) => match peer.trust_moved {
            Some(moved) => {
                format!("{:.3}: {set} was set, {moved:+.3} by what it did", (set + moved).clamp(0.0, 1.0))
            }
            None => set.to_string(),
        },
    };
    line("trust", &why);
    line("scope", &peer.scope);
    line(
        "line",
        if peer.blocked {
            "blocked"
        } else if peer.connected {
            "connected"
        } else {
            "not connected"
        },
    );
    if let Some(address) = &peer.address {
        line("address", address);
    }
    if let Some(ms) = peer.rtt_ms {
        line("round trip", &format!("{ms} ms"));
    }
    if let Some(facts) = &peer.facts {
        let [cpu, ram] = free(facts);
        line("free", &format!("{cpu} cores, {ram} MiB, {} of {} GPUs", facts.gpus_free, facts.gpus));
        line("jobs", &format!("{} running, {} queued", facts.running, facts.queued));
    }
    if let Some(standing) = peer.standing.filter(|standing| *standing < 0.0) {
        let much = if standing < -80.0 { "; it is not listened to until this is above -80" } else { "" };
        line("standing", &format!("{standing:.1}: it sent or handed on what it should not{much}"));
    }
    if !peer.deeds.is_empty() {
        let deeds = peer.deeds.iter().map(|(deed, times)| format!("{times} {}", said(deed)));
        line("conduct", &deeds.collect::<Vec<_>>().join(", "));
    }
    if !peer.dropped.is_empty() {
        let dropped = peer.dropped.iter().map(|(why, count)| format!("{count} {}", dropped_for(why)));
        line("dropped", &dropped.collect::<Vec<_>>().join(", "));
    }
    if let Some(note) = &peer.note {
        line("note", note);
    }
    text
}

/// What a peer did, in words.
fn said(deed: &str) -> &str {
    match deed {
        "kept" => "promises kept",
        "silent" => "awards it offered for and did not answer",
        "overstated" => "awards it had offered room for and had none",
        "lease_lost" => "runs it was not heard of again",
        "forged" => "messages in another's name",
        "invalid" => "messages that make no sense",
        "stale_result" => "results of awards that were not its own any more",
        "repeated" => "offers made twice",
        "claimed_twice" => "jobs it gave to two at once",
        "flooded" => "requests beyond what one peer may ask",
        other => other,
    }
}

/// Why messages of a peer were dropped before anybody thought about them, in words.
fn dropped_for(reason: &str) -> &str {
    match reason {
        "flood" => "messages beyond what one peer may say",
        "malformed" => "messages that cannot be read",
        "oversize" => "messages larger than allowed",
        "unknown_version" => "messages of another version",
        "not_direct" => "messages to all that are for one",
        "low_standing" => "messages while it was not listened to",
        "blocked" => "messages while it was blocked",
        "not_invited" => "wrong invitations",
        other => other,
    }
}

pub(crate) fn own(own: &Own, _: Page) -> String {
    let peer = &own.peer;
    let mut text = format!("{}\n", clean(&peer.id));
    for address in &peer.addresses {
        text += &format!("  address     {}\n", clean(address));
    }
    if let Some(invitation) = &peer.invitation {
        text += &format!("  invitation  {}\n", clean(invitation));
    }
    text
}

/// Every offer with its terms, who declined and why.
pub(crate) fn placement(placement: &NegotiationView) -> String {
    let mut text = format!(
        "\n{STRONG}negotiation{STRONG:#}: {}, round {}, award {}",
        clean(&placement.state),
        placement.round,
        placement.attempt
    );
    if let (Some(winner), Some(price)) = (&placement.winner, placement.price) {
        text += &format!(", {} at {price} credits per 1000 fuel", clean(&short(winner)));
    }
    if let Some(charge) = placement.charge {
        text += &format!(", {charge} due");
    }
    text.push('\n');
    text + &answers(placement)
}

/// Every offer and every decline.
fn answers(placement: &NegotiationView) -> String {
    let mut text = offers(&placement.offers);
    if !placement.declines.is_empty() {
        let mut table = Table::of(&[">round", "declined", "because"]).indent(2);
        for decline in &placement.declines {
            let because = decline.reasons.join(", ");
            table.row(vec![decline.round.to_string().into(), short(&decline.peer).into(), because.into()]);
        }
        text += &table.render();
    }
    if placement.offers.is_empty() && placement.declines.is_empty() {
        text += &format!("  {DIM}nobody has answered: `landfall peers list` shows who is there{DIM:#}\n");
    }
    text
}

/// What peers offer for a job that was not submitted.
pub(crate) fn offered(change: &str, plan: &PlanView, _: Page) -> String {
    let Some(placement) = &plan.negotiation else { return String::new() };
    let standing: Vec<&OfferView> =
        placement.offers.iter().filter(|offer| offer.status == "standing").collect();
    let mut text = format!("{STRONG}if {}{STRONG:#}\n\n", clean(change));
    text += &match standing.first() {
        Some(best) => format!(
            "{GOOD}{} would take it{GOOD:#}, the best of {}\n",
            clean(&short(&best.peer)),
            count(standing.len(), "offer")
        ),
        None => format!("{BAD}nobody would take it{BAD:#}\n"),
    };
    text + &answers(placement) + "\nnothing was submitted, kept or awarded\n"
}

fn offers(offers: &[OfferView]) -> String {
    if offers.is_empty() {
        return String::new();
    }
    let mut table =
        Table::of(&[">round", "offer of", "status", ">score", "terms", ">cost", ">starts in"]).indent(2);
    for offer in offers {
        let status = match &offer.reason {
            Some(reason) => format!("{}: {reason}", offer.status),
            None => offer.status.clone(),
        };
        let status = if offer.status == "won" { Cell::styled(status, GOOD) } else { status.into() };
        let terms: Vec<String> = offer
            .terms
            .iter()
            .filter(|term| term.points != 0.0)
            .map(|term| format!("{} {:.3}", term.term.trim_start_matches("offer-"), term.points))
            .collect();
        table.row(vec![
            offer.round.to_string().into(),
            short(&offer.peer).into(),
            status,
            offer.score.map_or("-".to_owned(), |score| format!("{score:.5}")).into(),
            terms.join(" + ").into(),
            offer.cost.to_string().into(),
            format!("{} s", offer.start_delay_ms / 1000).into(),
        ]);
    }
    table.render()
}
