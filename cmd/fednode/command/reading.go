package command

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
)

// reading is how a party's own data are read: each party's own, whatever the experiment says.
type reading struct {
	Columns    string `placeholder:"user=NAME,..." help:"What the data call their columns, where it is not user, item, rating and timestamp: user=visitor,item=sku. Without a column of ratings every row is a click."`
	Duplicates string `enum:"last,mean,count" default:"last" help:"What several rows of one user and item are: the last in the file counts, their mean, or of clicks how many they are, up to the top of the scale."`
}

// check says what is wrong with the flags.
func (r *reading) check() error {
	if _, err := read.ParseColumns(r.Columns); err != nil {
		return cli.Misusef("--columns: %w", err)
	}
	return nil
}

// of has the party's data of an experiment be read so. The last of a pair counts by itself, and
// the owner is then told of the others.
func (r *reading) of(e *experiment.Experiment) {
	algorithm.Columns.Set(&e.Config, r.Columns)
	if r.Duplicates != string(read.DuplicatesLast) {
		algorithm.Duplicates.Set(&e.Config, r.Duplicates)
	}
}
