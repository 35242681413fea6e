//! Headers as people have them, and what the job of each should say.

use serde_json::{Value, json};

fn minutes(number: u64) -> Value {
    json!(number * 60_000)
}

/// Needs by their fields, and `name`, `out`, `err`, `cwd`, `array`, `after` (jobs and how they have to end), `hold` and `not_before`.
pub(crate) fn cases() -> Vec<(&'static str, Value)> {
    vec![
        // The least.
        ("#SBATCH --time=10", json!({"walltime_ms": minutes(10)})),
        ("#SBATCH -t 01:30:00\n#SBATCH -J simulate", json!({"walltime_ms": minutes(90), "name": "simulate"})),
        (
            "#SBATCH --job-name=\"my job\" --time=1-00:00:00",
            json!({"name": "my job", "walltime_ms": minutes(1440)}),
        ),
        // One node, several cores.
        (
            "#SBATCH --nodes=1\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=8\n#SBATCH --mem=16G",
            json!({"cpu_milli": 8000, "ram_mib": 16384}),
        ),
        ("#SBATCH -N1 -n4 -c2", json!({"cpu_milli": 8000})),
        ("#SBATCH -n 16\n#SBATCH --mem-per-cpu=2G", json!({"cpu_milli": 16000, "ram_mib": 32768})),
        ("#SBATCH -c 4\n#SBATCH --mem-per-cpu=1500", json!({"cpu_milli": 4000, "ram_mib": 6000})),
        ("#SBATCH --mem=500", json!({"ram_mib": 500})),
        ("#SBATCH --mem=2T", json!({"ram_mib": 2_097_152})),
        ("#SBATCH --mem=1000000K", json!({"ram_mib": 977})),
        // Several nodes.
        (
            "#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=32\n#SBATCH --time=2-12:00",
            json!({"nodes": 4, "cpu_milli": 32000, "walltime_ms": minutes(3600)}),
        ),
        ("#SBATCH -N 2\n#SBATCH -n 48", json!({"nodes": 2, "cpu_milli": 24000})),
        (
            "#SBATCH --nodes=2-4\n#SBATCH --tasks-per-node=1\n#SBATCH -c 16",
            json!({"nodes": {"min": 2, "max": 4}, "cpu_milli": 16000}),
        ),
        ("#SBATCH --nodes=2\n#SBATCH --exclusive\n#SBATCH --mem=0", json!({"nodes": 2, "exclusive": true})),
        // GPUs.
        ("#SBATCH --gres=gpu:1", json!({"gpu_count": 1})),
        ("#SBATCH --gres=gpu", json!({"gpu_count": 1})),
        (
            "#SBATCH --gres=gpu:a100:2\n#SBATCH --cpus-per-gpu=6",
            json!({"gpu_count": 2, "gpu_models": ["a100"], "cpu_milli": 12000}),
        ),
        ("#SBATCH --gpus=v100:4", json!({"gpu_count": 4, "gpu_models": ["v100"]})),
        (
            "#SBATCH --nodes=2 --gpus=8 --mem-per-gpu=10G",
            json!({"nodes": 2, "gpu_count": 4, "ram_mib": 40960}),
        ),
        (
            "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n#SBATCH --ntasks-per-node=8\n#SBATCH --cpus-per-task=12",
            json!({"nodes": 2, "gpu_count": 8, "cpu_milli": 96000}),
        ),
        ("#SBATCH --ntasks=4 --gpus-per-task=1", json!({"gpu_count": 4, "cpu_milli": 4000})),
        // Arrays.
        ("#SBATCH --array=1-100", json!({"array": [1, 100, 1]})),
        (
            "#SBATCH --array=0-31%4\n#SBATCH --output=slurm-%A_%a.out",
            json!({"array": [0, 31, 1], "at_once": 4, "out": "slurm-{array}_{index}.out"}),
        ),
        ("#SBATCH -a 1,5,9", json!({"array": [1, 9, 4]})),
        ("#SBATCH --array=1,2,9-12%2", json!({"array": "1-2,9-12", "at_once": 2})),
        (
            "#SBATCH -a 1-100:2\n#SBATCH -o out/%x.%4a.txt",
            json!({"array": [1, 100, 2], "out": "out/{name}.{index:4}.txt"}),
        ),
        // Files and places.
        ("#SBATCH -o %j.out -e %j.err", json!({"out": "{job}.out", "err": "{job}.err"})),
        (
            "#SBATCH --output=/scratch/%x-%j.log\n#SBATCH --chdir=/scratch",
            json!({"out": "/scratch/{name}-{job}.log", "cwd": "/scratch"}),
        ),
        ("#SBATCH --output=/dev/null", json!({"out": "/dev/null"})),
        (
            "#SBATCH --output=res_%N_%t.txt -D sub",
            json!({"out": "res_{node}_{rank}.txt", "cwd": std::env::current_dir().unwrap().join("sub")}),
        ),
        // Whom it is for.
        ("#SBATCH -p gpu -A proj42", json!({"pool": "gpu", "tenant": "proj42"})),
        ("#SBATCH --partition=long   # the slow one", json!({"pool": "long"})),
        (
            "#SBATCH -C \"haswell&nvme\"",
            json!({"features": [{"name": "haswell", "count": 1}, {"name": "nvme", "count": 1}]}),
        ),
        // When.
        ("#SBATCH --dependency=afterok:123:124", json!({"after": ["123:success", "124:success"]})),
        ("#SBATCH -d afterany:12,afternotok:13", json!({"after": ["12:any", "13:failure"]})),
        ("#SBATCH --dependency=aftercorr:20_7", json!({"after": ["20.7:corresponding"]})),
        (
            "#SBATCH -J nightly\n#SBATCH --dependency=singleton",
            json!({"name": "nightly", "mutex": ["nightly"]}),
        ),
        ("#SBATCH --begin=2099-01-02T03:04:05", json!({"not_before": 4_071_006_245_000_u64})),
        ("#SBATCH --hold\n#SBATCH --no-requeue", json!({"hold": true, "requeue": "never"})),
        ("#SBATCH --requeue", json!({"requeue": "on_loss"})),
        ("#SBATCH --time=UNLIMITED", json!({})),
        // Ours, alone and beside.
        (
            "#LANDFALL --cpu 2 --memory 4G --walltime 1h30m",
            json!({"cpu_milli": 2000, "ram_mib": 4096, "walltime_ms": minutes(90)}),
        ),
        (
            "#SBATCH --mem=4G\n#LANDFALL --memory 8GiB --gpu 1:24GiB",
            json!({"ram_mib": 8192, "gpu_count": 1, "vram_mib": 24576}),
        ),
        ("##SBATCH --mem=4G\n# a comment\n\n#SBATCH --mem=1G", json!({"ram_mib": 1024})),
        // Mail, accounting and bindings do nothing here, and that is said.
        (
            "#SBATCH --mail-type=END,FAIL --mail-user=me@example.org\n#SBATCH --qos=normal --hint=nomultithread\n#SBATCH --signal=B:USR1@120 -t 5",
            json!({"walltime_ms": minutes(5)}),
        ),
    ]
}
