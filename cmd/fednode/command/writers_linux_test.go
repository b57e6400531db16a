package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/testutil"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
)

// The command itself writes the model of a session and a client's result. Each is there as a whole
// or not at all, whatever the disk does; see the test of that name in package node.
func TestWritersOnABadDisk(t *testing.T) {
	log, none := zerolog.Nop(), new(experiment.Party)
	embeddings := func(n int) model.Embeddings {
		ids := make([]string, 100*n)
		for i := range ids {
			ids[i] = fmt.Sprint("a long name of a row, number ", i)
		}
		return model.NewEmbeddings("item_embeddings", model.NewMatrix(len(ids), 1), ids)
	}
	rows := func(dir string) (int, error) {
		text, err := os.ReadFile(filepath.Join(dir, "item_embeddings.ids.json"))
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		var ids []string
		if err == nil {
			err = json.Unmarshal(text, &ids)
		}
		return len(ids) / 100, err
	}
	testutil.TryWriters(t, []testutil.Writer{
		// The file of the ids is the larger one, and is written after the matrix.
		{Name: "model", File: "item_embeddings.ids.json", Read: rows,
			Write: func(dir string, n int) error { return results.WriteEmbeddings(dir, embeddings(n)) }},
		{Name: "summary", File: party.SummaryFile, Read: sessionNumber(party.SummaryFile),
			Write: func(dir string, n int) error {
				return atomicfile.Write(filepath.Join(dir, party.SummaryFile), mark(fmt.Sprintf("%032x", n)), 0o644)
			}},
		{Name: "result", File: filepath.Join(party.PastFolder, fmt.Sprintf("%032x", 1), party.ResultFolder, party.ResultSession), Read: sessionNumber(filepath.Join(party.ResultFolder, party.ResultSession)),
			Write: func(dir string, n int) error {
				return party.KeepResult(none, nil, dir, protocol.SessionID{15: byte(n)}, &log)
			}},
	})
}

// sessionNumber reads the number of the session that a file names.
func sessionNumber(name string) func(string) (int, error) {
	return func(dir string) (n int, err error) {
		session, err := party.SessionIn(filepath.Join(dir, name))
		if err == nil && session != "" {
			_, err = fmt.Sscanf(session, "%x", &n)
		}
		return n, err
	}
}
