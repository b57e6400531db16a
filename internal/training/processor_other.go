//go:build !unix

package training

import "time"

var started = time.Now()

// processorTime stands for what this process has used of processors so far: the time of one, where the system does not tell.
func processorTime() time.Duration { return time.Since(started) }
