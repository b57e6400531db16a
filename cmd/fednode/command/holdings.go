package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
)

// Reasons why a process has nothing to train on.
var (
	errNobody = errors.New("the data have ratings, and none of these clients")
	errOther  = errors.New("another user")
)

type clientSpec struct {
	state, invitation string
	holding           algorithm.PartyData
}

// holdings are the data that a process would bring to a session, as far as its own files say.
type holdings struct {
	set     *dataset.Set
	left    leftOut
	absent  []string // users of the process without a rating in the data
	nothing error    // why no client of the process has a rating, though the data have ratings; else nil
	unnamed error    // the call does not say which of the data are the client's, so that every session is declined; else nil
}

// confirmed returns an error if the separator of the data is another than commas, and was found and not stated: a client
// spends ε on what it reads, so it guesses nothing. --check shows what it would read.
func (h *holdings) confirmed() error {
	for _, f := range h.set.Findings {
		if f.What == "separator" && f.Sure != dataset.Stated && f.Found != "commas" {
			return cli.Misusef("%s looks as if it had %s between its fields. A client spends epsilon on what it reads and guesses nothing: look at it with --check, then confirm with --separator %s",
				h.set.Name, f.Found, strings.TrimSuffix(f.Found, "s"))
		}
	}
	return nil
}

// look finds out which users of the process are in its data. agreed is the experiment that the owner agrees to; nil: any.
func (h *holdings) look(specs []clientSpec, agreed *config.Config) {
	organisation := agreed != nil && algorithm.Of(*agreed).About().Clients.Organisations()
	for _, at := range specs {
		if which := at.holding; which.User == "" && which.Part == 0 && len(which.IDs) == 0 && (h.set.Users > 1 || organisation) {
			h.unnamed = cli.Misusef("%s: the call does not say which of its ratings are this client's. A client of one user needs --user ID. An organisation needs --part K, or --ids FILE with its users (hfl) or items (vfl)", h.set.Name)
		}
	}
	if h.set.Len() == 0 {
		return // a header alone: an empty record, like any other
	}
	users := make(map[string]bool, len(h.set.UserIDs))
	for _, id := range h.set.UserIDs {
		users[id] = true
	}
	present := false
	for _, at := range specs {
		switch which := at.holding; {
		case which.User != "" && !users[which.User]:
			h.absent = append(h.absent, which.User)
		case which.User == "" && len(which.IDs) > 0:
			listed := func(id string) bool { return users[id] || slices.Contains(h.set.ItemIDs, id) }
			present = present || slices.ContainsFunc(which.IDs, listed)
			if !present {
				h.absent = append(h.absent, which.IDs[0])
			}
		default:
			present = true
		}
	}
	if !present {
		h.nothing = fmt.Errorf("%w: %s holds %d ratings of %d users, and none of the ids that this process stands for, such as %q%s",
			errNobody, h.set.Name, h.set.Len(), h.set.Users, h.absent[0], likeness(h.absent[0], h.set.UserIDs))
	}
}

// likeness says which id of the data may be meant; "" where none is like it.
func likeness(id string, ids []string) string {
	plain := func(s string) string {
		s = strings.TrimSuffix(strings.ToLower(strings.Trim(s, " \t\"'\ufeff")), ".0")
		return strings.TrimLeft(s, "0")
	}
	for _, other := range ids {
		if plain(other) == plain(id) {
			return fmt.Sprintf("; the data have %q", other)
		}
	}
	return ""
}

// begin returns an error before an invitation is used. A single client that is not in the data takes part all the same: refusing must not
// tell whether its user has ratings. If there are several clients and none is in the data, the list is wrong.
func (h *holdings) begin(clients int, empty bool, log *zerolog.Logger) error {
	switch {
	case h.unnamed != nil:
		return h.unnamed
	case h.nothing != nil && (clients == 1 || empty):
		log.Error().Str("reason", h.nothing.Error()).Msg("IS THE ID RIGHT? The client takes part with an empty record, and pays epsilon for nothing. If the id is wrong, stop now and start again with the right --user or --ids")
	case h.nothing != nil:
		return cli.Misusef("%w. Mend --users or --ids, or take part with empty records with --empty", h.nothing)
	case len(h.absent) > 0:
		log.Warn().Int("clients", len(h.absent)).Msg("these clients have no rating in the data: they take part like all others, with an empty record")
	}
	return nil
}

// report prints what would be trained on, for --check. Its error says that a user is not there, or not named.
func (h *holdings) report(ctx context.Context, w io.Writer, specs []clientSpec, items string) error {
	known := make(map[string]bool)
	unlisted := 0
	if items != "" {
		list, err := read.Items(ctx, items, read.Options{})
		if err != nil {
			return fmt.Errorf("--items: %w", err)
		}
		for _, id := range list.ItemIDs {
			known[id] = true
		}
	}
	of := make(map[string]int, len(h.set.UserIDs))
	for k, user := range h.set.User {
		of[h.set.UserIDs[user]]++
		if items != "" && !known[h.set.ItemIDs[h.set.Item[k]]] {
			unlisted++
		}
	}
	var low, high float32
	if h.set.Len() > 0 {
		low, high = slices.Min(h.set.Value), slices.Max(h.set.Value)
	}
	fmt.Fprintf(w, "data        %s: %d ratings by %d users of %d items, from %v to %v\n", h.set.Name, h.set.Len(), h.set.Users, h.set.Items, low, high)
	for _, f := range h.set.Findings {
		fmt.Fprintf(w, "%-10s  %s\n", f.What, f)
	}
	fmt.Fprintf(w, "left out    %d records\n", h.left.count)
	if items != "" {
		fmt.Fprintf(w, "items       %d in the list; %d ratings are of items that it lacks\n", len(known), unlisted)
	}
	for _, at := range specs {
		switch which := at.holding; {
		case which.User != "":
			fmt.Fprintf(w, "client      user %q: %d ratings\n", which.User, of[which.User])
		case len(which.IDs) > 0:
			fmt.Fprintf(w, "client      %d ids\n", len(which.IDs))
		default:
			fmt.Fprintln(w, "client      all ratings")
		}
	}
	return cmp.Or(h.unnamed, h.nothing)
}

// reading says how to read a party's own data, whatever the experiment says.
type reading struct {
	Columns    string `placeholder:"user=NAME,..." help:"What the data call their columns, where it is not user, item, rating and timestamp: user=visitor,item=sku. Without a column of ratings every row is a click."`
	Duplicates string `enum:"last,mean,count" default:"last" help:"What to do if a user rated an item twice: keep the last, the mean, or the count (clicks, up to the top of the scale)."`
	Separator  string `placeholder:"SEP" help:"Separator of the data's fields: comma, semicolon, tab, pipe, space, :: or another character. Default: found by the first lines."`
	NoHeader   bool   `help:"The first row of the data is a rating, and the columns are user, item, rating and timestamp unless --columns says other places."`
	DayFirst   bool   `help:"Dates with slashes, such as 05/06/2024, have the day before the month. Default: found by days above 12, else the month is first."`
	Encoding   string `placeholder:"NAME" help:"Encoding of the data, such as latin1, utf-16 or gbk. Default: found by the first bytes."`
	Member     string `placeholder:"NAME" help:"The file of a folder or archive that holds the ratings."`
	Unrated    string `placeholder:"N,..." help:"Values of the column of ratings that mean not rated, such as 0,-1,99. Their rows are left out."`
}

// texts are the flags that say how the data are written.
func (r *reading) texts() read.Texts {
	return read.Texts{Columns: r.Columns, Separator: r.Separator, Encoding: r.Encoding, Member: r.Member, Unrated: r.Unrated, NoHeader: r.NoHeader, DayFirst: r.DayFirst}
}

func (r *reading) check() error {
	if err := r.texts().Set(new(read.Options)); err != nil {
		return cli.Misusef("%w", err)
	}
	return nil
}

// of has the party's data of an experiment be read so. The last of a pair counts by itself, and the owner is then told of the others.
func (r *reading) of(e *experiment.Experiment) {
	algorithm.Columns.Set(&e.Config, r.Columns)
	algorithm.Separator.Set(&e.Config, r.Separator)
	algorithm.Encoding.Set(&e.Config, r.Encoding)
	algorithm.Member.Set(&e.Config, r.Member)
	algorithm.Unrated.Set(&e.Config, r.Unrated)
	if r.NoHeader {
		algorithm.NoHeader.Set(&e.Config, "yes")
	}
	if r.DayFirst {
		algorithm.DayFirst.Set(&e.Config, "yes")
	}
	if r.Duplicates != string(read.DuplicatesLast) {
		algorithm.Duplicates.Set(&e.Config, r.Duplicates)
	}
}

// options returns the options for reading the files of the flags, which check has checked.
func (r *reading) options(o read.Options) read.Options {
	_ = r.texts().Set(&o) // checked
	if r.Duplicates != string(read.DuplicatesLast) {
		o.Duplicates = read.Duplicates(r.Duplicates)
	}
	return o
}
