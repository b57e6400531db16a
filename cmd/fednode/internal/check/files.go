package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/results"
)

// leastRoom is the room in bytes that a state needs beside new models.
const leastRoom = 64 << 20

// folder checks who may write to the state, who may read it, and the room on its disk.
func (x *Report) folder() {
	if err := store.CheckFolder(x.dir); err != nil {
		x.add(Wrong, ".", err.Error(), "")
	}
	largest, open := int64(0), 0
	err := filepath.WalkDir(x.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) || d.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if err = store.CheckWritable(path, info); err != nil {
			x.add(Wrong, x.inside(path), err.Error(), "")
			open++
		}
		if info.Mode().IsRegular() {
			largest = max(largest, info.Size())
		}
		return nil
	})
	if err != nil {
		x.add(Wrong, ".", err.Error(), "run the check as the user of the process, or as root")
	} else if open == 0 {
		x.fine(".", "no other user can write to the files")
	}
	switch free, known := atomicfile.Free(x.dir); {
	case !known:
		x.add(Note, ".", "this system does not say how much room is left on the disk", "")
	case free < leastRoom+2*uint64(largest): // a new model stands beside the last
		x.add(Wrong, ".", fmt.Sprintf("%s are left on the disk; %s are needed for the next session", bytesOf(free), bytesOf(leastRoom+2*uint64(largest))),
			"make room before the next session")
	default:
		x.fine(".", "%s are left on the disk", bytesOf(free))
	}
}

func (x *Report) inside(path string) string {
	name, err := filepath.Rel(x.dir, path)
	if err != nil {
		return path
	}
	return name
}

func bytesOf(n uint64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func (x *Report) client(own admission.PublicKey) {
	x.has(party.LedgerFile)
	l, err := store.ReadLedger(filepath.Join(x.dir, party.LedgerFile), own)
	charged := x.ledger(l, err)
	consents, err := store.Consents(x.dir)
	if x.has("consents") || err != nil {
		x.looked("consents", err, "delete the file: it is a record for the owner, and the ledger limits what is spent", "%d sessions that the owner agreed to", len(consents))
	}
	for _, session := range charged {
		if err == nil && !slices.ContainsFunc(consents, func(c store.Consent) bool { return c.Session == session }) {
			x.add(Note, "consents", fmt.Sprintf("the ledger has charges of session %s, and the record of what was agreed to is gone", session), "nothing depends on it; the ledger has the cost")
		}
	}
	x.receipts()
	if x.has(party.ResultFolder) {
		x.result(party.ResultFolder)
	}
	x.aligned()
	x.training()
	x.past(func(session string) {
		if dir := filepath.Join(party.PastFolder, session, party.ResultFolder); x.there(dir) {
			x.result(dir)
		}
	})
}

// ledger says what was spent, and returns the sessions that were charged, in hex.
func (x *Report) ledger(l *store.Ledger, err error) []string {
	newer := party.LedgerFile + ".newer"
	x.has(newer)
	if errors.Is(err, fs.ErrNotExist) {
		x.add(Wrong, party.LedgerFile, "it is missing: what was spent is not known any more", lostLedger)
		return nil
	}
	if err != nil {
		x.looked(party.LedgerFile, err, lostLedger, "")
		return nil
	}
	if lacks := l.Overtaken(); lacks != nil {
		x.add(Wrong, newer, lacks.Error(), "see node/losses.md")
	}
	x.fine(party.LedgerFile, "%d charges, each in its place in the chain of hashes", l.Charges())
	return l.Sessions()
}

const lostLedger = "never put an old copy back; have the operator revoke this client and invite it again: see node/losses.md"

func (x *Report) there(name string) bool {
	_, err := os.Lstat(filepath.Join(x.dir, name))
	return err == nil
}

// result checks what a session left to a client.
func (x *Report) result(name string) {
	dir := filepath.Join(x.dir, name)
	session, err := party.SessionIn(filepath.Join(dir, party.ResultSession))
	if err == nil && session == "" {
		err = fmt.Errorf("%s is missing", party.ResultSession)
	}
	if err == nil {
		_, err = party.OpenPublic(dir)
	}
	if err == nil {
		_, err = results.ReadEmbeddings(dir)
	}
	x.looked(name, err, "move it elsewhere; the next session leaves another", "model and user's embedding of session %s, complete", session)
}

// training checks the checkpoints of a party that trains on its own between rounds.
func (x *Report) training() {
	list, _ := filepath.Glob(filepath.Join(x.dir, "training-*"))
	for _, dir := range list {
		name := x.inside(dir)
		x.known[name] = struct{}{}
		c, _, fallback, err := store.LastCheckpoint(dir)
		if errors.Is(err, store.ErrNoCheckpoint) {
			x.add(Note, name, "empty", "")
			continue
		}
		x.checkpointed(name, c, fallback, err)
	}
}

func (x *Report) checkpointed(name string, c *store.Checkpoint, fallback, err error) {
	switch {
	case err != nil:
		x.looked(name, err, "the session cannot continue from it: fednode server --abandon ends a session", "")
	case fallback != nil:
		x.add(Wrong, name, fmt.Sprintf("the newest checkpoint cannot be read, and its predecessor is of round %d: %v", c.Round, fallback), "check the disk; the party continues from the predecessor")
	default:
		x.fine(name, "checkpoint after round %d of session %x", c.Round, c.Session[:])
	}
}

// aligned checks the rows of organisations that share users.
func (x *Report) aligned() {
	x.has(party.UsersFile)
	if x.has(party.AlignmentFile) {
		_, _, err := party.ReadAlignment(x.dir)
		x.looked(party.AlignmentFile, err, "align again", "rows of an alignment")
	}
}

// past calls a function with the sessions that have a folder.
func (x *Report) past(session func(id string)) {
	if !x.has(party.PastFolder) {
		return
	}
	entries, err := os.ReadDir(filepath.Join(x.dir, party.PastFolder))
	if err != nil {
		x.looked(party.PastFolder, err, "", "")
	}
	for _, e := range entries {
		session(e.Name())
	}
}

// receipts checks the receipts of the sessions that are finished.
func (x *Report) receipts() {
	if x.has(party.ReceiptsFile) {
		_, err := store.OpenReceipts(filepath.Join(x.dir, party.ReceiptsFile))
		x.looked(party.ReceiptsFile, err, "", "receipts of the sessions that are finished")
	}
}

func (x *Report) server() {
	x.receipts()
	for _, name := range append([]string{party.PublicFile, party.EndedFile, party.CurrentLink, party.StartFile}, party.CheckpointFiles...) {
		x.has(name)
	}
	x.aligned()
	if x.there(party.PublicFile) {
		x.session()
	}
	x.past(func(session string) {
		if dir := filepath.Join(party.PastFolder, session, party.ModelFolder); x.there(dir) {
			x.looked(dir, x.model(session), "move it elsewhere, and start the server once more with --again end, if its session was the last", "complete")
		}
	})
	if !x.there(party.CurrentLink) {
		return
	}
	to, err := os.Readlink(filepath.Join(x.dir, party.CurrentLink))
	if err == nil {
		_, err = os.Stat(filepath.Join(x.dir, party.CurrentLink))
	}
	x.looked(party.CurrentLink, err, "start the server once more with --again end, which writes the last session's model again, or restore the folder from a copy", "leads to %s", to)
}

func (x *Report) session() {
	p, err := party.ReadPublic(x.dir)
	if err != nil {
		x.looked(party.PublicFile, err, "--abandon ends the session", "")
		return
	}
	x.fine(party.PublicFile, "session %x of %d clients", p.Session[:], p.Terms.Cohort.All())
	x.add(Note, party.PublicFile, "whether later sessions are missing, as in a state restored from an older copy, the state does not tell", "the server asks the aggregator when it starts, and ends with exit code 2 if so")
	ended, err := party.EndedIn(x.dir)
	if err != nil || ended != "" {
		x.looked(party.EndedFile, err, "delete it, and start the server again", "the session has ended")
	}
	if !x.there(party.CheckpointFiles[0]) && !x.there(party.CheckpointFiles[1]) {
		return
	}
	hash, err := p.Hash()
	var c *store.Checkpoint
	var fallback error
	if err == nil {
		c, fallback, err = store.LoadCheckpoint(x.dir, hash)
	}
	if err == nil && c.Session != p.Session {
		err = fmt.Errorf("it is of session %x", c.Session[:])
	}
	x.checkpointed(party.CheckpointFiles[0], c, fallback, err)
}

// model checks that the model of a session is complete.
func (x *Report) model(session string) error {
	dir := party.ModelFolderOf(x.dir, session)
	of, err := party.SessionIn(filepath.Join(dir, party.SummaryFile))
	if err != nil {
		return err
	}
	if !strings.EqualFold(of, session) {
		return fmt.Errorf("%s is missing, or of another session", party.SummaryFile)
	}
	e, err := party.OpenPublic(dir)
	if err != nil {
		return err
	}
	shared, err := os.ReadFile(filepath.Join(dir, results.SharedFile))
	if err != nil {
		return err
	}
	want, err := e.Instance().Shared(shared)
	if err != nil {
		return fmt.Errorf("%s: %w", results.SharedFile, err)
	}
	for _, x := range want {
		if _, err = os.Stat(filepath.Join(dir, x.Name+".npy")); err != nil {
			return fmt.Errorf("%s: it lacks %s.npy", party.ModelFolder, x.Name)
		}
	}
	_, err = results.ReadEmbeddings(dir)
	return err
}
