package command

import (
	"errors"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/cli"
)

// formFlags say how a file is written.
type formFlags struct {
	Columns   string `placeholder:"user=NAME,..." help:"What the data call their columns, or their places: user=1,item=2,rating=3. As of fedsim run."`
	Separator string `placeholder:"SEP" help:"What stands between fields: comma, semicolon, tab, pipe, space, :: or another character. Default: found by the first lines."`
	NoHeader  bool   `help:"The first row is a rating, and the columns are user, item, rating and timestamp unless --columns says other places."`
	DayFirst  bool   `help:"Dates with slashes, such as 05/06/2024, have the day before the month. Default: found by days above 12, else the month is first."`
	Encoding  string `placeholder:"NAME" help:"Encoding of the text, such as latin1, utf-16 or gbk. Default: found by the first bytes."`
	Member    string `placeholder:"NAME" help:"The file of a folder or archive that holds the ratings."`
}

func (f *formFlags) texts() read.Texts {
	return read.Texts{Columns: f.Columns, Separator: f.Separator, Encoding: f.Encoding, Member: f.Member, NoHeader: f.NoHeader, DayFirst: f.DayFirst}
}

// form returns what changes a configuration to the flags; nil without flags, which leave the data to the form
// of the run's. The flags are of data other than the run's.
func (f *formFlags) form(data string) (func(*config.Config), error) {
	if *f == (formFlags{}) {
		return nil, nil
	}
	if data == "" {
		return nil, cli.Misusef("--columns, --separator, --no-header, --day-first, --encoding and --member say how other ratings are written; say --data too")
	}
	var o read.Options
	if err := f.texts().Set(&o); err != nil {
		return nil, cli.Misusef("%w", err)
	}
	return f.set, nil
}

// set changes how a configuration reads data.
func (f *formFlags) set(c *config.Config) {
	for key, text := range map[config.TextKey]string{algorithm.Columns: f.Columns, algorithm.Separator: f.Separator, algorithm.Encoding: f.Encoding, algorithm.Member: f.Member} {
		key.Set(c, text)
	}
	for key, on := range map[config.TextKey]bool{algorithm.NoHeader: f.NoHeader, algorithm.DayFirst: f.DayFirst} {
		key.Set(c, map[bool]string{true: "yes", false: "no"}[on])
	}
}

// dataFlags say how data are read by commands that have no experiment.
type dataFlags struct {
	RatingMin  *float64 `help:"Bottom of the rating scale, for data whose format does not say it."`
	RatingMax  *float64 `help:"Top of the rating scale, for data whose format does not say it."`
	Duplicates string   `enum:"error,last,mean,count" default:"error" help:"What to do if a user rated an item twice: error, last, mean, or count (clicks)."`
	formFlags
	Unrated string `placeholder:"N,..." help:"Values of the column of ratings that mean not rated, such as 0,-1,99. Their rows are left out and counted."`
	BadRows string `enum:"error,skip" default:"error" help:"Rows that cannot be used: error refuses the data and names the first ten, skip leaves them out and counts them."`
}

// options checks the flags and returns what they say.
func (f *dataFlags) options() (read.Options, error) {
	o := read.Options{Min: f.RatingMin, Max: f.RatingMax, Duplicates: read.Duplicates(f.Duplicates), BadRows: read.BadRows(f.BadRows)}
	texts := f.texts()
	texts.Unrated = f.Unrated
	if err := texts.Set(&o); err != nil {
		return o, cli.Misusef("%w", err)
	}
	return o, nil
}

// misread makes a wrong call of an error that a flag would mend.
func misread(err error) error {
	switch {
	case errors.Is(err, dataset.ErrScale):
		return cli.Misusef("--rating-min, --rating-max: %w", err)
	case errors.Is(err, read.ErrDuplicates):
		return cli.Misusef("--duplicates: %w", err)
	}
	return err
}
