package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
)

// ProfileFlags names the files for profiles of time and memory. A tree of commands that embeds it
// has the flags.
type ProfileFlags struct {
	CPUProfile string `name:"cpuprofile" placeholder:"FILE" help:"Write where processor time goes, for go tool pprof."`
	MemProfile string `name:"memprofile" placeholder:"FILE" help:"Write what memory is in use at the end, for go tool pprof."`
	Trace      string `name:"trace" placeholder:"FILE" help:"Write what each goroutine does when, for go tool trace."`
}

func (p *ProfileFlags) profiles() *ProfileFlags { return p }

// around records the requested profiles while f runs, also if f fails. A file that cannot be made
// is an error before anything runs.
func (p *ProfileFlags) around(f func() error) (err error) {
	for _, r := range []struct {
		file  string
		start func(io.Writer) error
		stop  func(io.Writer) error
	}{
		{p.CPUProfile, pprof.StartCPUProfile, func(io.Writer) error { pprof.StopCPUProfile(); return nil }},
		{p.Trace, trace.Start, func(io.Writer) error { trace.Stop(); return nil }},
		{p.MemProfile, func(io.Writer) error { return nil }, func(w io.Writer) error { runtime.GC(); return pprof.WriteHeapProfile(w) }},
	} {
		if r.file == "" {
			continue
		}
		w, failed := os.Create(r.file)
		if failed == nil {
			failed = r.start(w)
		}
		if failed != nil {
			return fmt.Errorf("profile: %w", failed)
		}
		defer func() {
			if failed := errors.Join(r.stop(w), w.Close()); failed != nil {
				err = errors.Join(err, fmt.Errorf("profile %s: %w", r.file, failed))
			}
		}()
	}
	return f()
}
