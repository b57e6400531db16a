package command

import (
	"errors"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/cli"
)

// dataFlags say how data are read by commands that have no experiment.
type dataFlags struct {
	RatingMin  *float64 `help:"Bottom of the rating scale, for data whose format does not say it."`
	RatingMax  *float64 `help:"Top of the rating scale, for data whose format does not say it."`
	Columns    string   `placeholder:"user=NAME,..." help:"What the data call their columns, or their places: user=1,item=2,rating=3. As of fedsim run."`
	Duplicates string   `enum:"error,last,mean,count" default:"error" help:"What to do if a user rated an item twice: error, last, mean, or count (clicks)."`
	Separator  string   `placeholder:"SEP" help:"What stands between fields: comma, semicolon, tab, pipe, space, :: or another character. Default: found by the first lines."`
	NoHeader   bool     `help:"The first row is a rating, and the columns are user, item, rating and timestamp unless --columns says other places."`
	Encoding   string   `placeholder:"NAME" help:"Encoding of the text, such as latin1, utf-16 or gbk. Default: found by the first bytes."`
	Member     string   `placeholder:"NAME" help:"The file of a folder or archive that holds the ratings."`
	Unrated    string   `placeholder:"N,..." help:"Values of the column of ratings that mean not rated, such as 0,-1,99. Their rows are left out and counted."`
	BadRows    string   `enum:"error,skip" default:"error" help:"What to do about rows that cannot be used: error refuses the data and names the first ten, skip leaves them out and counts them."`
}

// options checks the flags and returns what they say.
func (f *dataFlags) options() (read.Options, error) {
	o := read.Options{Min: f.RatingMin, Max: f.RatingMax, Duplicates: read.Duplicates(f.Duplicates), BadRows: read.BadRows(f.BadRows)}
	err := read.Texts{Columns: f.Columns, Separator: f.Separator, Encoding: f.Encoding, Member: f.Member, Unrated: f.Unrated, NoHeader: f.NoHeader}.Set(&o)
	if err != nil {
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
		return cli.Misusef("--%w", err)
	}
	return err
}
