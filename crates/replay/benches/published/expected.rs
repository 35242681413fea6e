//! What was published, as far as it is not in the traces themselves.

/// A log of the study of whole logs: file, processors, mean bounded slowdowns under EASY with user estimates, true run
/// times and doubled estimates, then the same under SJBF (Gaussier et al., SC 2015).
pub(crate) const LOGS: [(&str, u32, [f64; 6]); 4] = [
    ("KTH-SP2", 100, [92.576540, 71.722385, 79.930251, 69.405401, 49.847719, 58.912532]),
    ("SDSC-SP2", 128, [87.870324, 70.477942, 82.135225, 84.888945, 56.836221, 77.901041]),
    ("SDSC-BLUE", 1152, [36.523364, 30.621454, 33.370200, 19.826012, 13.177588, 18.275665]),
    ("CEA-curie", 80_640, [202.133162, 69.925935, 255.290735, 169.030310, 12.079795, 198.990043]),
];

/// Predicted durations on the same logs: policy, then mean bounded slowdown and longest time from submission to end in
/// days for each log.
pub(crate) const LEARNERS: [(&str, [(f64, f64); 4]); 2] = [
    ("easy++", [(62.856883, 6.2), (65.063601, 11.9), (16.826861, 14.2), (21.328427, 33.7)]),
    ("easy++-tsafrir", [(63.500677, 6.3), (79.396282, 8.8), (20.986431, 16.3), (193.471298, 40.5)]),
];

/// Whole logs with all events of an instant taken together: file, processors, policy, mean bounded slowdown with so many
/// decimals, mean wait in seconds, utilisation.
pub(crate) const REFERENCE: [(&str, u32, &str, f64, usize, f64, f64); 20] = [
    ("KTH-SP2-1996-2.1-cln.swf.gz", 100, "fcfs", 6818.32, 2, 353_949.9, 0.696_733),
    ("KTH-SP2-1996-2.1-cln.swf.gz", 100, "easy", 92.729_925, 6, 6837.485, 0.697_121),
    ("KTH-SP2-1996-2.1-cln.swf.gz", 100, "sjbf", 69.424_451, 6, 5906.126, 0.697_121),
    ("KTH-SP2-1996-2.1-cln.swf.gz", 100, "conservative", 101.873_700, 6, 7939.611, 0.697_121),
    ("KTH-SP2-1996-2.1-cln.swf.gz", 100, "conservative-standing", 90.530_740, 6, 7287.543, f64::NAN),
    ("SDSC-SP2-1998-4.2-cln.swf.gz", 128, "fcfs", 13_824.97, 2, 1_535_707.3, 0.759_582),
    ("SDSC-SP2-1998-4.2-cln.swf.gz", 128, "easy", 87.760_390, 6, 20_567.861, 0.824_509),
    ("SDSC-SP2-1998-4.2-cln.swf.gz", 128, "sjbf", 82.951_076, 6, 20_416.675, 0.824_542),
    ("SDSC-SP2-1998-4.2-cln.swf.gz", 128, "conservative", 101.966_813, 6, 24_355.853, 0.824_231),
    ("easy-schedules/SDSC-BLUE.easy.swf.gz", 1152, "fcfs", 3280.36, 2, 360_207.5, 0.741_431),
    ("easy-schedules/SDSC-BLUE.easy.swf.gz", 1152, "easy", 37.410_196, 6, 7870.057, 0.761_806),
    ("easy-schedules/SDSC-BLUE.easy.swf.gz", 1152, "conservative", 54.541_369, 6, 10_013.484, 0.761_806),
    ("easy-schedules/CEA-curie.easy.swf.gz", 80_640, "fcfs", 5959.10, 2, 175_288.5, 0.710_822),
    ("easy-schedules/CEA-curie.easy.swf.gz", 80_640, "easy", 228.512_012, 6, 7063.701, 0.711_943),
    ("theta_walltime.swf.gz", 4392, "fcfs", 1615.44, 2, 349_812.4, 0.677_193),
    ("theta_walltime.swf.gz", 4392, "easy", 28.467_488, 6, 14_513.866, 0.678_512),
    ("theta_walltime.swf.gz", 4392, "conservative", 37.656_555, 6, 18_564.252, 0.678_512),
    ("mira_walltime.swf.gz", 49_152, "fcfs", 663.24, 2, 590_145.8, 0.811_678),
    ("mira_walltime.swf.gz", 49_152, "easy", 43.942_895, 6, 46_865.326, 0.859_284),
    ("mira_walltime.swf.gz", 49_152, "conservative", 47.912_559, 6, 52_820.890, 0.859_284),
];

/// Ten sequences of 1024 jobs (RLScheduler, SC 2020): where each begins.
pub(crate) const SEQUENCES: [usize; 10] = [1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085];

/// Log, processors, mean bounded slowdowns under FCFS, SJF and F1 without backfilling.
pub(crate) const SEQUENCE_LOGS: [(&str, u32, [f64; 3]); 3] = [
    ("lublin_256.swf", 256, [7273.77, 277.35, 258.37]),
    ("SDSC-SP2-1998-4.2-cln.swf.gz", 128, [1727.54, 2680.55, 1232.06]),
    ("lublin_256_new2.swf", 256, [7842.47, 787.89, 698.34]),
];

/// Packing policies here and in the published tables.
pub(crate) const PACKING: [(&str, &str); 5] = [
    ("best-fit", "05-BestFit"),
    ("dot-product", "02-DotProd"),
    ("gpu-packing", "04-GpuPacking"),
    ("gpu-clustering", "03-GpuClustering"),
    ("fgd", "06-FGD"),
];

/// Variants of the pod list beside `default`.
pub(crate) const VARIANTS: [&str; 14] = [
    "cpu050",
    "cpu100",
    "cpu200",
    "gpushare40",
    "gpushare60",
    "gpushare80",
    "gpushare100",
    "gpuspec10",
    "gpuspec20",
    "gpuspec25",
    "gpuspec33",
    "multigpu20",
    "multigpu30",
    "multigpu40",
];

/// Published means over ten seeds at 100 % arrived on `default`, and how far ten other sequences may be off.
pub(crate) const DRAWN: [(&str, f64, f64); 5] = [
    ("best-fit", 92.86, 0.3),
    ("dot-product", 90.62, 0.3),
    ("fgd", 95.23, 0.3),
    ("gpu-packing", 91.78, 0.6),
    ("gpu-clustering", 91.65, 0.6),
];
