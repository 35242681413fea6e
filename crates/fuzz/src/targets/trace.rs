//! Traces: whatever kind a file is, it is read as `replay` and `trace convert` would, and written again.

use std::io::{Cursor, Read as _};

use landfall_replay::trace::batch::Kept;
use landfall_replay::trace::convert::{Shape, from_muri, from_openb, from_swf, to_swf};
use landfall_replay::trace::own::{Header, Trace, Writer};
use landfall_replay::trace::swf::{BadLines, Log};
use landfall_replay::trace::{Kind, Source, TraceError, muri, openb, recognise};

use super::policy::has_a_place;
use super::scenario::says_many;

/// Processors that a log is replayed on at most, here.
const PROCESSORS_MAX: u64 = 1000;

pub(crate) fn run(input: &[u8]) {
    let mut source = opened(input);
    let kind = recognise(&mut source);
    let read = match kind {
        Ok(Some(kind)) => read(kind, source, input),
        Ok(None) => return drop(source.finish()),
        Err(error) => Err(error.into()),
    };
    match read {
        Ok(()) | Err(TraceError::Read(_)) => {}
        Err(TraceError::Invalid(error)) => {
            has_a_place(&error);
            assert!(error.position.is_some_and(|at| at.line > 0), "errors of traces have a line: {error:?}");
        }
    }
}

fn opened(input: &[u8]) -> Source {
    Source::new(Cursor::new(input.to_vec())).expect("bytes can be read")
}

fn read(kind: Kind, mut source: Source, input: &[u8]) -> Result<(), TraceError> {
    let header = Header::default();
    match kind {
        Kind::Swf => swf(source, input)?,
        Kind::Own => own(source)?,
        Kind::OpenbPods => {
            let pods = openb::read_pods(&mut source)?;
            from_openb(&[], &pods, &header, &mut Vec::new())?;
        }
        Kind::OpenbNodes => {
            let nodes = openb::read_nodes(&mut source)?;
            let mut written = Vec::new();
            from_openb(&nodes, &[], &header, &mut written)?;
        }
        Kind::OpenbArrivals => drop(openb::read_arrivals(&mut source)?),
        Kind::Muri => {
            let jobs = muri::read(&mut source)?;
            let mut written = Vec::new();
            from_muri(&jobs, Shape::default(), &header, &mut written)?;
            reads_back(&written);
        }
    }
    Ok(())
}

fn swf(source: Source, input: &[u8]) -> Result<(), TraceError> {
    let (log, _) = Log::read_with(source, BadLines::Drop)?;
    let mut written = Vec::new();
    log.write(&mut written)?;
    let again = Log::read(written.as_slice()).unwrap_or_else(|error| panic!("what was written: {error}"));
    assert_eq!(again.jobs, log.jobs);
    let _ = Kept::of(&log, u64::MAX);
    let processors = log.processors().unwrap_or(8).min(PROCESSORS_MAX);
    let mut own = Vec::new();
    from_swf(&log, processors, Shape::default(), &Header::default(), &mut own)?;
    reads_back(&own);
    Log::read(opened(input)).map(drop)
}

/// A trace that was written by a conversion is one.
fn reads_back(written: &[u8]) {
    match Trace::read(written) {
        Ok(_) => {}
        // Ids that are used twice in the input are so in the output; that is told with the line.
        Err(TraceError::Invalid(error)) if error.message.ends_with("is there already") => {}
        Err(error) => panic!("a written trace: {error}"),
    }
}

fn own(mut source: Source) -> Result<(), TraceError> {
    let mut text = Vec::new();
    source.read_to_end(&mut text)?;
    if says_many(&String::from_utf8_lossy(&text)) {
        return Ok(());
    }
    let trace = Trace::read(text.as_slice())?;
    let mut writer = Writer::new(Vec::new(), &trace.header)?;
    for submission in &trace.submissions {
        writer.submission(submission)?;
    }
    for change in &trace.changes {
        writer.change(change)?;
    }
    let again = Trace::read(writer.into_inner().as_slice())
        .unwrap_or_else(|error| panic!("what was written: {error}"));
    assert_eq!(again.submissions, trace.submissions);
    assert_eq!((again.header, again.changes), (trace.header.clone(), trace.changes.clone()));
    let _ = to_swf(&trace, Shape::default());
    Ok(())
}
