package fedsim

import "time"

// CheckpointEvery sets how much time passes between checkpoints.
func CheckpointEvery(d time.Duration) { checkpointEvery = d }
