//! The Muri traces of deep-learning clusters: one job a row, times in milliseconds.

use std::io::BufRead;

use super::error::TraceError;
use super::table::Table;

/// A training job of a Muri trace.
#[derive(Debug, Clone, PartialEq)]
pub struct MuriJob {
    pub number: u64,
    /// Devices it trains on together.
    pub num_gpu: u32,
    /// When it was submitted, in milliseconds.
    pub submit_ms: u64,
    /// How long it runs, in milliseconds.
    pub duration_ms: u64,
    pub iterations: u64,
    pub model: String,
    pub batch_size: u64,
    /// Length of one step, in milliseconds.
    pub iteration_ms: f64,
    /// Milliseconds of a step that each of three resources is in use.
    pub resource_ms: [f64; 3],
    /// Its priority, 0 or 1.
    pub priority: u64,
}

pub fn read(reader: impl BufRead) -> Result<Vec<MuriJob>, TraceError> {
    let mut table = Table::new(reader)?;
    let [number, num_gpu, submit] =
        [table.need("job_id")?, table.need("num_gpu")?, table.need("submit_time")?];
    let [iterations, model, batch] =
        [table.need("iterations")?, table.need("model_name")?, table.need("batch_size")?];
    let [duration, step, priority] =
        [table.need("duration")?, table.need("iteration_time")?, table.need("priority")?];
    let resources =
        [table.need("resource_time_0")?, table.need("resource_time_1")?, table.need("resource_time_2")?];
    let mut jobs = Vec::new();
    while let Some(row) = table.next()? {
        let [a, b, c] = resources;
        jobs.push(MuriJob {
            number: row.amount(number)?,
            num_gpu: row.count(num_gpu)?,
            submit_ms: row.amount(submit)?,
            duration_ms: row.amount(duration)?,
            iterations: row.amount(iterations)?,
            model: row.text(model).to_owned(),
            batch_size: row.amount(batch)?,
            iteration_ms: row.decimal(step)?,
            resource_ms: [row.decimal(a)?, row.decimal(b)?, row.decimal(c)?],
            priority: row.amount(priority)?,
        });
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n";

    #[test]
    fn a_row_is_a_job() {
        let text = format!("{HEADER}1,8,201694000,8787693,dqn,128,4472936000,201694000,509,435,8,0.5,0\n");
        let jobs = read(text.as_bytes()).unwrap();
        assert_eq!(
            (jobs[0].num_gpu, jobs[0].submit_ms, jobs[0].duration_ms),
            (8, 201_694_000, 4_472_936_000)
        );
        assert_eq!(jobs[0].resource_ms, [435.0, 8.0, 0.5]);
    }

    #[test]
    fn mistakes_name_the_column() {
        let error = read(format!("{HEADER}1,8,,1,dqn,1,1,1,1,1,1,1,0\n").as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "line 2: submit_time: found ``, expected a number of 0 or more");
    }
}
