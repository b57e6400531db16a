package node_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/protocol"
)

// shared returns ratings of parties that own items, each with users of its own: k to k+4. The last
// file has the ratings of all.
func shared(t *testing.T, parties int) []string {
	t.Helper()
	const head = "user,item,rating\n"
	all, texts := head, []string{}
	for k := range parties {
		own := ""
		for u := k; u < k+5; u++ {
			for i := k; i < 12; i += parties {
				if (u*7+i*3)%5 < 4 {
					own += fmt.Sprintf("u%02d,i%02d,%d\n", u, i, 1+(u+i*i)%5)
				}
			}
		}
		all += own
		texts = append(texts, head+own)
	}
	dir, files := t.TempDir(), []string{}
	for k, text := range append(texts, all) {
		path := filepath.Join(dir, fmt.Sprintf("%d.csv", k))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, path)
	}
	return files
}

// Parties that have aligned their users train as they would on one list of all ids, in the order of
// the rows. The model and each party's own embeddings are the same to the bit.
func TestAlignedTrainingIsThatOfTheList(t *testing.T) {
	x := newAlignment(t)
	files := shared(t, len(x.lists))
	for k := range x.lists {
		set, err := read.Open(t.Context(), files[k], read.Options{})
		if err != nil {
			t.Fatal(err)
		}
		x.lists[k] = set.UserIDs
	}
	x.all()
	list, aligned := make([]string, x.union.Users), make([]string, x.union.Users)
	names := make([]map[string]string, len(x.lists))
	for row := range list {
		list[row], aligned[row] = fmt.Sprintf("nobody %d", row), x.union.Attempt.User(row)
	}
	for k := range x.lists {
		names[k] = make(map[string]string)
		for id, row := range x.rows[protocol.ClientID(k)].Row {
			list[row], names[k][id] = id, aligned[row]
		}
	}
	byList := trainShared(t, files, list, make([]map[string]string, len(x.lists)))
	byRows := trainShared(t, files, aligned, names)
	for i := range byList {
		if !bytes.Equal(byList[i], byRows[i]) || len(byList[i]) == 0 {
			t.Errorf("embeddings %d, of %d bytes, are others by rows than by a list of ids", i, len(byList[i]))
		}
	}
	swapped := append([]map[string]string{names[1]}, names[1:]...)
	if bytes.Equal(byList[0], trainShared(t, files, aligned, swapped)[0]) {
		t.Error("the model is the same whosever rows a party takes")
	}
}

// trainShared is a session in which these are the users, and parties know them by names. It
// returns the model and the parties' own embeddings.
func trainShared(t *testing.T, files, users []string, names []map[string]string) [][]byte {
	t.Helper()
	f := newFederation(t, vertical+"data="+files[len(files)-1])
	facts := f.public.Facts
	facts.Users, facts.UserIDs = len(users), users
	var err error
	if f.public, err = agreement.Publish(f.public.Config, facts, f.public.Session); err != nil {
		t.Fatal(err)
	}
	e, err := agreement.Open(f.public)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	parties := make([]client.Trainer, len(names))
	f.trainer = func(id protocol.ClientID, _ client.Trainer) client.Trainer {
		set, err := read.Open(f.ctx, files[id], read.Options{Min: &f.simulated.Data.Min, Max: &f.simulated.Data.Max})
		if err != nil {
			t.Error(err)
			return nil
		}
		p, err := e.Party(algorithm.PartyData{IDs: set.ItemIDs, Names: names[id]}, set, planned(e))
		if err != nil {
			t.Error(err)
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		parties[id] = p
		return p
	}
	out := [][]byte{f.run().Model}
	for _, p := range parties {
		out = append(out, owned(t, p))
	}
	return out
}
