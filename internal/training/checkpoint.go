package training

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/sim"
)

// checkpointEvery is the least time between two checkpoints of a run, and so the work that an interruption
// loses: see [pause]. A shorter run writes no checkpoint.
var checkpointEvery = time.Second

// pause returns the time to wait after a checkpoint, given the time that writing it took. Large checkpoints, and checkpoints on
// a slow disk, are rarer: writing takes at most a fiftieth of a run.
func pause(took time.Duration) time.Duration {
	if checkpointEvery == 0 { // every round
		return 0
	}
	return max(checkpointEvery, 50*took)
}

// checkpoint is a run between two rounds, as a file: a hidden one beside the folders of runs,
// named by what is run. Like these it holds what clients keep to themselves.
type checkpoint struct {
	Version  string           // of the program that wrote it: another may compute other bits
	Identity string           // of what is run, and on what
	Given    []config.Setting // of the experiment, for a resumption without an experiment
	Rounds   int              // that are over; passes of training in one place
	Metrics  []byte           // results.Metrics of every round, JSON
	Attempts []experiment.Attempt
	Run      sim.Snapshot // of a federation
	Central  []byte       // of training in one place: algorithm.Passes
}

// checkpointDomain begins the file, ends in the version of its form, and is followed by the
// SHA-256 of the rest, which is a gob.
const checkpointDomain = "fedsim/checkpoint/v1\n"

func decodeCheckpoint(b []byte) (*checkpoint, error) {
	rest, ok := bytes.CutPrefix(b, []byte(checkpointDomain))
	if !ok || len(rest) < sha256.Size {
		return nil, fmt.Errorf("it is no checkpoint of this form, which begins with %q", checkpointDomain)
	}
	sum, rest := rest[:sha256.Size], rest[sha256.Size:]
	if got := sha256.Sum256(rest); !bytes.Equal(got[:], sum) {
		return nil, errors.New("the checkpoint is damaged: its content does not match its digest")
	}
	var c checkpoint
	if err := gob.NewDecoder(bytes.NewReader(rest)).Decode(&c); err != nil {
		return nil, fmt.Errorf("the checkpoint cannot be read: %w", err)
	}
	if here := programVersion(); c.Version != here {
		return nil, fmt.Errorf("the checkpoint is of fedsim %s, and this is %s, which may compute other bits", c.Version, here)
	}
	return &c, nil
}

func programVersion() string {
	v := version.Get()
	return v.Version + " " + v.Source()
}

// checkpointExt ends the names of checkpoints.
const checkpointExt = ".checkpoint"

func readCheckpoint(path string) (*checkpoint, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := decodeCheckpoint(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; without --resume, or without this file, the run starts anew", path, err)
	}
	return c, nil
}

// write leaves the checkpoint at a path: as a whole, or not at all.
func (c *checkpoint) write(path string) error {
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(*c); err != nil {
		return err
	}
	sum := sha256.Sum256(body.Bytes())
	return atomicfile.Replace(path, func(w io.Writer) (err error) {
		for _, part := range [][]byte{[]byte(checkpointDomain), sum[:], body.Bytes()} {
			if err == nil {
				_, err = w.Write(part)
			}
		}
		return err
	})
}
