package command

import (
	"context"
	"encoding/hex"
	"errors"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/align"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/protocol"
)

type alignCmd struct {
	IDs        string `name:"ids" placeholder:"FILE" help:"A party's list of its users' ids, one a line, spelt as all parties do. They stay here."`
	Pad        int    `default:"1" placeholder:"N" help:"Round the number of a party's ids, which all get to know, up to a multiple of N. What is added are rows without ratings."`
	Invitation string `placeholder:"FILE" help:"The party's or the server's invitation; needed once."`
	Again      bool   `help:"Align anew, though this state holds an alignment. All others have to do so, too."`
	State      string `required:"" placeholder:"DIR" help:"That of fednode client or fednode server; made if it is missing. Rows are kept in it. A start with the same one goes on."`
	movedFlag
}

func (c *alignCmd) Run(ctx context.Context, s *streams) error {
	f, place, err := party.Of(c.State, c.Invitation)
	if err != nil {
		return err
	}
	role := place.Role
	log := s.log("align")
	s.starts(&log, f)
	ids, err := c.ids(role)
	if err != nil {
		return err
	}
	moved, err := c.moved()
	if err != nil {
		return err
	}
	m, err := party.Open(ctx, c.State, c.Invitation, role, moved, &log)
	if err != nil {
		return err
	}
	defer m.Close() //nolint:errcheck // all that is in them is durable
	have, attempt, err := party.ReadAlignment(c.State)
	if c.Again {
		have, attempt, err = nil, align.Attempt{}, nil
	}
	if err != nil {
		return err
	}
	if have != nil && role == protocol.Client && !have.Of(ids) {
		if have.Ended {
			return cli.Misusef("--ids: %s holds the alignment of another list than %s; --again aligns anew, if all do so", c.State, c.IDs)
		}
		have, attempt = nil, align.Attempt{} // of no use any more
	}
	if have == nil || !have.Ended {
		m.Workers = protocol.Workers(runtime.GOMAXPROCS(0))
		cfg := node.AlignConfig{Member: m.Member, Entropy: entropy.System(), Kept: attempt}
		if have, err = c.align(ctx, cfg, have, ids); err != nil {
			return err
		}
	} else {
		log.Info().Msg("aligned already; --again aligns anew")
	}
	return shown.ExecuteTemplate(s.out, "alignment", struct {
		*party.Alignment
		File string // of the server
	}{have, filepath.Join(c.State, party.UsersFile)})
}

func (c *alignCmd) ids(role protocol.Role) ([]string, error) {
	switch {
	case role == protocol.Server && c.IDs != "":
		return nil, cli.Misusef("--ids: the server has no list of users")
	case role == protocol.Server:
		return nil, nil
	case role != protocol.Client:
		return nil, cli.Misusef("--state: it belongs to the %s; only the server and the parties align", role)
	case c.IDs == "":
		return nil, cli.Misusef("--ids: a file with the ids of the party's users is needed, one a line")
	case c.Pad < 1:
		return nil, cli.Misusef("--pad %d: a number from 1 on is needed", c.Pad)
	}
	list, err := readIDs(c.IDs)
	if err != nil {
		return nil, cli.Misusef("--ids: %w", err)
	}
	for i, id := range list {
		list[i] = strings.TrimSuffix(id, "\r")
	}
	return list, nil
}

func (c *alignCmd) align(ctx context.Context, cfg node.AlignConfig, have *party.Alignment, ids []string) (*party.Alignment, error) {
	var err error
	if ids == nil {
		var earlier *align.Ended
		if have != nil {
			earlier = &align.Ended{Attempt: cfg.Kept[:], Signature: have.Signature}
		}
		err = node.AlignServer(ctx, cfg, earlier, func(u *align.Union, e *align.Ended) error {
			have = &party.Alignment{Format: party.AlignmentFormat, Attempt: hex.EncodeToString(u.Attempt[:]), Users: u.Users, Lists: u.Lists, Shared: u.Shared, Signature: e.Signature}
			return errors.Join(party.WriteUsers(c.State, u), have.Write(c.State))
		})
	} else {
		count := (len(ids) + c.Pad - 1) / c.Pad * c.Pad
		err = node.AlignParty(ctx, cfg, ids, count, func(r *align.Rows) error {
			have = &party.Alignment{Format: party.AlignmentFormat, Attempt: hex.EncodeToString(r.Attempt[:]), Users: r.Users, Rows: r.Row}
			return have.Write(c.State)
		})
	}
	if err != nil {
		return nil, err
	}
	have.Ended = true
	return have, have.Write(c.State)
}
