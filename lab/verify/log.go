package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
)

// logged checks the log of sessions that a deployment's model is in, and the receipts that parties kept of it.
func (f *folder) logged(ctx context.Context, r *Report, e *experiment.Experiment, o Options) error {
	kept, err := os.ReadFile(o.Receipts)
	if err != nil {
		return cli.Misusef("--receipts: %w", err)
	}
	var stated []*protocol.Leaf
	for _, s := range f.evidence.Sessions {
		stated = append(stated, &protocol.Leaf{Session: s.Session, Charges: s.Events})
	}
	own := stated[len(stated)-1]
	own.Clients, own.Rounds, own.Claims = f.summary.Clients, f.summary.Rounds, agreement.Claims(e)
	for name, to := range map[string]*[]byte{results.PublicFile: &own.Agreement, results.SharedFile: &own.Model} {
		content, wrong := os.ReadFile(filepath.Join(f.dir, name))
		if wrong != nil {
			return wrong
		}
		sum := sha256.Sum256(content)
		*to = sum[:]
	}
	a := audit{r: r, read: store.ReadFolder(o.Log), receipts: kept}
	if strings.Contains(o.Log, "://") {
		a.read = func(name string) ([]byte, error) { return fetch(ctx, strings.TrimSuffix(o.Log, "/")+"/"+name) }
	}
	if err = a.run(stated, f.summary.Privacy.Epsilon); err != nil {
		return cli.Misusef("--log %s: %w", o.Log, err)
	}
	return nil
}

// mostFetched limits a file of a log, in bytes: 256 entries of 64 KiB.
const mostFetched = 1 << 24

func fetch(ctx context.Context, url string) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, mostFetched))
}

// audit checks a log of sessions for a reader who trusts neither the aggregator nor the server.
type audit struct {
	r        *Report
	read     func(name string) ([]byte, error) // reads a file of the log
	receipts []byte                            // of owners, one a line
	sessions map[string]*protocol.Leaf         // the end of each, or if it has none its beginning
}

// leastEpsilon returns the least ε that releases can have, by the accountant of this package.
func leastEpsilon(charges []dp.Event, delta, samplers float64) (float64, error) {
	c, err := epsilonOf(charges, nil, delta, samplers)
	return c.epsilon * (1 - c.tolerance), err
}

// run checks the log and the receipts, and that the log has the sessions of a folder as the folder states them. Of all but the last
// only the releases are compared. stated is the ε of the last. An error is about a log that cannot be read.
func (a *audit) run(folder []*protocol.Leaf, stated float64) error {
	var log *store.Sessions
	var key admission.PublicKey
	parties, n := make(map[string]map[admission.PublicKey]bool), 0
	for line := range bytes.Lines(a.receipts) {
		r, err := store.ParseReceipt(line)
		if err != nil {
			return err
		}
		leaf, tree, err := r.VerifyKept()
		if n++; err != nil {
			a.r.add(Forged, "receipts", "line %d: %v", n, err)
			continue
		}
		if log == nil {
			if log, err = a.open(r.Log); log == nil {
				return err
			}
			key = r.Log
		}
		switch then, err := log.At(tree.N); {
		case r.Log != key:
			a.r.add(Forged, "key", "the party %s was shown a log of %s, and this one is of %s", r.Party, r.Log, key)
		case err != nil:
			a.r.add(Forged, "log", "it was shortened, or its checkpoint is an old one: the party %s was shown %d entries; %v", r.Party, tree.N, err)
		case then != tree:
			a.r.add(Forged, "views", "the party %s was shown another log of %d entries", r.Party, tree.N)
		}
		l, all := a.sessions[leaf.Session], parties[leaf.Session]
		if all == nil {
			all = map[admission.PublicKey]bool{admission.PublicKey(leaf.Server): true}
			parties[leaf.Session] = all
		}
		if all[r.Party] = true; l != nil && (len(all) > l.Clients+1 || r.Charged > l.Rounds) {
			a.r.add(Forged, "clients", "%d clients show receipts of the session %s, one of %d rounds; the log has %d clients and %d rounds",
				len(all)-1, l.Session, r.Charged, l.Clients, l.Rounds)
		}
	}
	if log == nil {
		return errors.New("no receipt holds, and without one the key of the log is not known")
	}
	good := fmt.Sprintf("%d entries under one signature, and every tile of them. %d receipts are of this log", log.Tree.N, n)
	return a.compare(folder, stated, good)
}

// open reads the log and its sessions. It returns nil for a log that does not hold.
func (a *audit) open(key admission.PublicKey) (*store.Sessions, error) {
	log, err := store.ReadSessions(a.read, key)
	if _, other := errors.AsType[*note.UnverifiedNoteError](err); other {
		a.r.add(Forged, "key", "parties were shown a log of another key: %v", err)
		return nil, nil
	} else if errors.Is(err, store.ErrLog) {
		a.r.add(Forged, "log", "%v", err)
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	a.sessions = make(map[string]*protocol.Leaf)
	for i, entry := range log.Entries {
		leaf, err := protocol.ParseLeaf(entry)
		if err != nil {
			a.r.add(Forged, "log", "entry %d: %v", i, err)
			continue
		}
		before := a.sessions[leaf.Session]
		if before == nil && leaf.Model != nil {
			a.r.add(Forged, "log", "entry %d ends the session %s, which never began", i, leaf.Session)
		} else if before != nil {
			for part, text := range parts(before) {
				if text != parts(leaf)[part] && (part != "model" || before.Model != nil && leaf.Model != nil) {
					a.r.add(Forged, "log", "entry %d gives another %s of the session %s than an earlier one", i, part, leaf.Session)
				}
			}
		}
		if before == nil || before.Model == nil {
			a.sessions[leaf.Session] = leaf
		}
	}
	return log, nil
}

// parts are the texts of what a leaf states, by subject.
func parts(l *protocol.Leaf) map[string]string {
	charges, _ := json.Marshal(l.Charges)
	return map[string]string{
		"agreement": fmt.Sprintf("%x", l.Agreement), "clients": fmt.Sprint(l.Clients), "rounds": fmt.Sprint(l.Rounds),
		"noise": string(charges), "model": fmt.Sprintf("%x", l.Model), "search": l.Claims.Search + " " + l.Claims.SearchDigest,
		"start": l.Claims.Start, "unit": fmt.Sprint(l.Claims.Unit, l.Claims.Delta, l.Claims.SamplerError),
	}
}

// compare compares the sessions that a folder states with the log, and computes what all sessions of the log cost together.
func (a *audit) compare(folder []*protocol.Leaf, stated float64, good string) error {
	var is *protocol.Leaf
	for i, x := range folder {
		if is = a.sessions[x.Session]; is == nil || is.Model == nil {
			a.r.add(Forged, "history", "the log has no end of the session %s", x.Session)
			return nil
		}
		logged := parts(is)
		for _, part := range slices.Sorted(maps.Keys(logged)) {
			compared := i == len(folder)-1
			if part == "noise" {
				compared = is.Claims.Search == "" // else the search has the price
			}
			if text := parts(x)[part]; compared && text != logged[part] {
				a.r.add(Forged, part, "of the session %s the log has %s, and the folder %s", x.Session, logged[part], text)
			}
		}
	}
	var all []dp.Event
	samplers, delta, ended, counted := 0.0, 0.0, 0, true
	for _, l := range a.sessions {
		all, samplers, delta = append(all, l.Charges...), samplers+l.Claims.SamplerError, max(delta, l.Claims.Delta)
		if l.Model != nil {
			ended++
		}
		counted = counted && l.Claims.Delta > 0 && l.Claims.Search == "" // else no ε follows from the log alone
	}
	if is.Claims.Delta > 0 && is.Claims.Search == "" {
		own, err := leastEpsilon(is.Charges, is.Claims.Delta, is.Claims.SamplerError)
		if err != nil {
			return err
		} else if stated < own {
			a.r.add(Forged, "epsilon", "the releases in the log cost ε = %.6g at least; summary.json states %.6g", own, stated)
		}
	}
	if counted {
		total, err := leastEpsilon(all, delta, samplers)
		if err != nil {
			return err
		}
		good += fmt.Sprintf(". A client in all its sessions has spent ε = %.6g at δ = %v", total, delta)
	}
	a.r.add(OK, "log", "%s. %d sessions began, and %d have ended", good, len(a.sessions), ended)
	return nil
}
