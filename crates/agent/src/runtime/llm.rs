//! Language models through llama.cpp: its command line and its figures.

use std::path::{Path, PathBuf};

use landfall_api::agent::Start;

use super::Refusal;

/// What reaches the memory bus of what the data sheet says, as the scorer assumes it too.
const EFFICIENCY: f64 = 0.55;

/// Where llama.cpp is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Llama {
    /// `llama-cli` or `llama-server`.
    pub path: PathBuf,
}

/// The command that runs a model. Words that begin with `-` are options for llama.cpp; otherwise they are the prompt.
pub(crate) fn run(llama: &Llama, start: &Start) -> Result<Vec<String>, Refusal> {
    let model = start.run.model.as_deref().filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| Refusal::malformed("a model needs run.model"))?;
    let mut argv = vec![llama.path.display().to_string(), "--model".into(), model.to_owned()];
    if start.share.cpu_milli >= 1000 {
        argv.extend(["--threads".into(), (start.share.cpu_milli / 1000).to_string()]);
    }
    if !start.share.gpus.is_empty() {
        argv.extend(["--n-gpu-layers".into(), "999".into()]);
    }
    let words = &start.run.command;
    if words.first().is_some_and(|word| word.starts_with('-')) {
        argv.extend(words.iter().cloned());
    } else if !words.is_empty() {
        argv.extend(["--no-conversation".into(), "--prompt".into(), words.join(" ")]);
    }
    Ok(argv)
}

/// Tokens per second that the chosen GPUs should reach with a model of this size, in thousandths.
pub(crate) fn expected_milli_tok_s(model_bytes: u64, gb_s: f64) -> Option<u64> {
    let gib = model_bytes as f64 / f64::from(1 << 30);
    let rate = gb_s / gib * EFFICIENCY * 1000.0;
    (gib > 0.0 && rate.is_finite() && rate >= 1.0).then_some(rate as u64)
}

/// The size of a model, if it is a file here.
pub(crate) fn model_bytes(start: &Start) -> Option<u64> {
    std::fs::metadata(Path::new(start.run.model.as_deref()?)).ok().map(|meta| meta.len())
}

/// Fewer generated tokens tell nothing about speed.
const TOKENS_MIN: u64 = 32;

/// Tokens per second out of what llama.cpp prints at the end, if it generated enough. Reading the prompt is another figure, which
/// is left out.
pub(crate) fn tokens_per_second(text: &str) -> Option<f64> {
    let line = text.lines().rev().find(|line| line.contains("eval time") && !line.contains("prompt eval"))?;
    let (_, counted) = line.split_once('/')?;
    let tokens: u64 = counted.split_ascii_whitespace().next()?.parse().ok()?;
    let (before, _) = line.split_once("tokens per second")?;
    let speed = before.rsplit([',', '(', ' ']).find(|word| !word.trim().is_empty())?.trim().parse().ok();
    speed.filter(|_| tokens >= TOKENS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::tests::start;

    #[test]
    fn words_are_a_prompt_unless_they_are_options() {
        let llama = Llama { path: "/bin/llama-cli".into() };
        let mut job = start("llmcpp", &["Why", "is", "it?"]);
        assert!(run(&llama, &job).is_err(), "no model");
        job.run.model = Some("/m.gguf".into());
        job.share.gpus = vec![0];
        job.share.cpu_milli = 4000;
        assert_eq!(
            run(&llama, &job).expect("arguments")[1..].join("|"),
            "--model|/m.gguf|--threads|4|--n-gpu-layers|999|--no-conversation|--prompt|Why is it?"
        );
        job.run.command = vec!["-p".into(), "x".into()];
        assert!(run(&llama, &job).expect("arguments").join(" ").ends_with("999 -p x"));
    }

    #[test]
    fn the_figure_is_found_in_what_it_prints() {
        let text = "llama_perf_context_print:        load time =     812.11 ms\n\
            llama_perf_context_print: prompt eval time =      94.02 ms /     6 tokens (   15.67 ms per token,    63.82 tokens per second)\n\
            llama_perf_context_print:        eval time =    2510.40 ms /   127 runs   (   19.77 ms per token,    50.59 tokens per second)\n\
            llama_perf_context_print:       total time =    2650.00 ms /   133 tokens\n";
        assert_eq!(tokens_per_second(text), Some(50.59));
        assert_eq!(tokens_per_second("nothing"), None);
        assert_eq!(tokens_per_second(&text.replace("127 runs", "31 runs")), None, "too few tokens");
        assert_eq!(tokens_per_second(&text.replace("127 runs", "32 runs")), Some(50.59));
    }

    #[test]
    fn expectation_follows_bandwidth_and_size() {
        assert_eq!(expected_milli_tok_s(8 << 30, 936.0), Some(64_350));
        assert_eq!(expected_milli_tok_s(0, 936.0), None);
    }
}
