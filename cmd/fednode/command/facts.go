package command

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/node/session"
)

// terms returns the terms that every party goes by in a session of an experiment.
func terms(e *experiment.Experiment) *session.Terms {
	return &session.Terms{
		Session: e.Session(), Cohort: e.Cohort, Mode: e.Mode(), SitOut: algorithm.SitOut.Value(e.Config),
		StageTimeout: seconds(algorithm.StageTimeout.Value(e.Config)), Tail: seconds(algorithm.Tail.Value(e.Config)), Gather: seconds(algorithm.Gather.Value(e.Config)), Steps: e.Schedule,
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// facts returns the public facts about the data: the list of items in a folder, and who or how many
// the users are. No rating is opened.
func facts(ctx context.Context, c config.Config, items, users string, clients int) (agreement.Facts, error) {
	set, err := read.Items(ctx, items, experiment.DataOptions(c))
	if err != nil {
		return agreement.Facts{}, fmt.Errorf("--items: the list of items, a file or a folder with movies.csv, movies.dat, u.item or items.csv: %w", err)
	}
	about := algorithm.Of(c).About()
	switch about.Clients {
	case algorithm.ItemParties:
		if users == "" {
			return agreement.Facts{}, cli.Misusef("--users FILE is needed with %s: the ids of all users, one a line. fednode align leaves such a file, users.txt in the state", about.Name)
		}
		if set.UserIDs, err = readIDs(users); err != nil {
			return agreement.Facts{}, cli.Misusef("--users: with %s a file with the ids of all users is needed, one a line: %w", about.Name, err)
		}
		set.Users = len(set.UserIDs)
	case algorithm.UserParties:
		if users == "" {
			return agreement.Facts{}, cli.Misusef("--users N is needed with %s: the number of users of all parties together", about.Name)
		}
		if set.Users, err = strconv.Atoi(users); err != nil {
			return agreement.Facts{}, cli.Misusef("--users: with %s the number of users of all parties is needed, not %q", about.Name, users)
		}
	default:
		if users != "" {
			return agreement.Facts{}, cli.Misusef("--users: with %s every client is a user", about.Name)
		}
		set.Users = clients
	}
	return agreement.FactsOf(c, set)
}

// spared raises the tolerance of settings by the places that cannot be taken, so that they do not
// count as lost. Rounds require the same share of the other clients, and noise is for these. It returns
// a text of the change for the log; "" if there is none.
func spared(settings config.Config, places, without int) (config.Config, string, error) {
	omega := algorithm.Tolerance.Value(settings)
	if without == 0 {
		return settings, "", nil
	}
	there := places - without
	if there < 1 {
		return settings, "", cli.Misusef("%d of %d places are spare or given up: none is left", without, places)
	}
	lost := int(math.Floor(omega*float64(there)+1e-9)) + without
	algorithm.Tolerance.Set(&settings, float64(lost)/float64(places))
	return settings, fmt.Sprintf("tolerance is %v in place of %v", algorithm.Tolerance.Value(settings), omega), nil
}
