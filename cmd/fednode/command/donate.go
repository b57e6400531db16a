package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// donate writes the gift of a user's ratings, or the gift without ratings that takes it back. It sends nothing.
func (c *clientCmd) donate(ctx context.Context, specs []clientSpec, s *streams, log *zerolog.Logger) error {
	if c.Donate == "" || c.Users != "" || c.Invitation != "" || c.Check || c.Federation == "" {
		return cli.Misusef("--donate FILE, --federation FILE and --state go together, without --users, --invitation and --check: a donor takes no part in sums, and has no place among the clients. --withdraw goes with them")
	}
	f, err := admission.ReadFile(c.Federation, admission.ParseFederation)
	if err != nil {
		return err
	}
	if _, err = os.Stat(filepath.Join(c.State, party.MembershipFile)); err == nil {
		return cli.Misusef("--donate: %s is the state of a client. A donor has a folder of its own, and the client leaves the federation: its noise would not hide ratings that all can read", c.State)
	}
	identity := filepath.Join(c.State, "donor.json")
	if _, err = os.Stat(identity); err != nil && c.Withdraw {
		return cli.Misusef("--withdraw: %w; ratings are taken back by the key in the --state with which they were given", err)
	}
	if err = store.MakeFolder(c.State); err != nil {
		return err
	}
	key, err := party.MakeIdentity(identity)
	if err != nil {
		return err
	}
	g := agreement.Gift{Federation: fmt.Sprintf("%x", f.Hash()), At: time.Now().Unix(), Items: []string{}, Values: []float32{}}
	if !c.Withdraw {
		h, failed := c.hold(ctx, specs, log)
		if failed == nil {
			failed = h.confirmed()
		}
		if failed != nil {
			return failed
		}
		user := slices.Index(h.set.UserIDs, string(c.User))
		if user < 0 {
			return cli.Misusef("--donate: %s has no ratings of --user %q", c.Data, c.User)
		}
		items, values := h.set.ByUser().Row(user)
		g.Items = append(g.Items, model.At(h.set.ItemIDs, items)...)
		g.Values = append(g.Values, values...)
	}
	g.Sign(key.Ed25519())
	if err = atomicfile.WriteJSON(c.Donate, g); err != nil {
		return err
	}
	return shown.ExecuteTemplate(s.out, "gift", map[string]any{"file": c.Donate, "ratings": len(g.Items), "key": key.Public(), "federation": f.Name})
}

// gifts reads all files of a folder, in the order of their names. Of one key the latest gift counts. A gift without ratings takes
// all of them back, whatever their clocks said.
func gifts(dir string, f *admission.Federation, log *zerolog.Logger) (list []agreement.Gift, err error) {
	if dir == "" {
		return nil, nil
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("--donations: %w", err)
	}
	for _, file := range files {
		var g agreement.Gift
		path := filepath.Join(dir, file.Name())
		if err = atomicfile.ReadJSON(path, &g); err == nil {
			err = g.Verify()
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("--donations: %s: %w", path, err)
		case g.Federation != fmt.Sprintf("%x", f.Hash()):
			return nil, cli.Misusef("--donations: %s is given to another federation than %q", path, f.Name)
		}
		at := slices.IndexFunc(list, func(x agreement.Gift) bool { return x.Key.Equal(g.Key) })
		if at < 0 {
			list = append(list, g)
		} else if len(list[at].Items) > 0 && (len(g.Items) == 0 || g.At > list[at].At) {
			list[at] = g
		}
	}
	list = slices.DeleteFunc(list, func(g agreement.Gift) bool { return len(g.Items) == 0 })
	log.Info().Int("donors", len(list)).Int("files", len(files)).Msg("users who give their ratings openly: no epsilon covers them")
	return list, nil
}
