package command

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
)

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

// of has the party's data of an experiment be read so. The last of a pair counts by itself, and
// the owner is then told of the others.
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
