package command

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/dataset/published"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/verb"
)

type dataCmd struct {
	List    dataListCmd    `cmd:"" help:"List the data sets and formats there are, and which sets are in the cache."`
	Get     dataGetCmd     `cmd:"" help:"Download a published set into the cache. Nothing else ever downloads."`
	Info    dataInfoCmd    `cmd:"" help:"Describe a data set."`
	IDs     dataIDsCmd     `cmd:"" name:"ids" help:"List the ids of a data set's users or items, one a line, in the order of a simulation: what fednode client --ids and fednode server --users read."`
	Similar dataSimilarCmd `cmd:"" help:"Make features of items of a run on other people's data: which items are like which."`
	Raters  dataRatersCmd  `cmd:"" help:"Write what public users gave as features of items: what public-users makes of them in a simulation, for a deployment without them."`
	Pack    dataPackCmd    `cmd:"" help:"Write a data set in a compact form by user, which fedsim reads without loading it."`
	Verify  dataVerifyCmd  `cmd:"" help:"Compare a copy of a published set with its digests and published counts."`
}

type dataListCmd struct {
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

// listed is a line of fedsim data list.
type listed struct {
	read.Entry
	Cached string `json:"cached,omitempty"` // path of the archive in the cache
}

func (c *dataListCmd) Run(s verb.Streams) error {
	var list []listed
	cache, cacheErr := published.UserCache()
	for _, e := range read.List() {
		line := listed{Entry: e}
		if p, ok := published.Lookup(e.Name); ok && cacheErr == nil && cache.Has(p) { // without a cache nothing is in it
			line.Cached = cache.Archive(p)
		}
		list = append(list, line)
	}
	return cli.PrintForm(s.Out, c.Format, dataTables, "list", list)
}

//go:embed data.tmpl
var dataText string

var dataTables = template.Must(template.New("data").Funcs(template.FuncMap{
	"percent":   func(format string, share float64) string { return fmt.Sprintf(format+"%%", 100*share) },
	"join":      func(list []string) string { return strings.Join(list, ", ") },
	"megabytes": megabytes,
	"ratio":     func(a int64, b int) float64 { return float64(a) / float64(b) },
	"times":     timesOf,
	"bar": func(n, all int) string {
		share := float64(n) / float64(all)
		return fmt.Sprintf("%9d  %4.1f%%  %s", n, 100*share, strings.Repeat("#", int(60*share+0.5)))
	},
}).Parse(dataText))

type dataInfoCmd struct {
	Data string `arg:"" help:"As for fedsim run --data."`
	verb.Flags
	Features     string `placeholder:"SPEC" help:"Public item features to describe too: genres, year and CSV files with the columns item_id, category, value and perhaps weight, with commas between."`
	ByPopularity bool   `help:"Tell of each category of features on how popular items they are, too. That reads exact counts of ratings: for measuring only, covered by no epsilon."`
	Buckets      int    `default:"4" placeholder:"N" help:"Into how many buckets of the same size items are divided for that, 1 to 10."`
	Format       string `enum:"table,json" default:"table" help:"table or json."`
}

type described struct {
	dataset.Info
	Features *describedFeatures `json:"features,omitempty"` // where they were asked for
	// ByPopularity follows from exact counts of private ratings; where it was asked for.
	ByPopularity []eval.FeatureShares `json:"by_popularity,omitempty"`
}

type describedFeatures struct {
	Categories []describedCategory `json:"categories"`
	Skipped    int                 `json:"skipped"` // rows of files about items that the set does not have
	Digest     string              `json:"digest"`
}

type describedCategory struct {
	Name     string `json:"name"`
	Values   int    `json:"values"`
	Items    int    `json:"items"`    // that have one of them
	Features int    `json:"features"` // of all items together
	Top      string `json:"top"`      // the value that most items have, the first of such
	TopItems int    `json:"top_items"`
}

func (c *dataInfoCmd) Run(ctx context.Context, s verb.Streams) error {
	switch {
	case c.ByPopularity && c.Features == "":
		return cli.Misusef("--by-popularity: of which features? say --features")
	case c.Buckets < 1 || c.Buckets > eval.MostBuckets:
		return cli.Misusef("--buckets %d: want 1 to %d", c.Buckets, eval.MostBuckets)
	}
	p := verb.NewProgress(s.Err)
	o, err := options(c.Flags)
	if err != nil {
		return err
	}
	o.Progress, o.MaybeTimes = p.Loading(c.Data), true
	set, err := read.Open(ctx, c.Data, o)
	p.Clear()
	if err != nil {
		return misread(err)
	}
	verb.Notify(set.Notices, s)
	features, err := read.Features(set, c.Features)
	if err != nil {
		return err
	}
	info := described{Info: set.Info()}
	if features != nil {
		info.Features = describeFeatures(features)
		if c.ByPopularity {
			info.ByPopularity = eval.ByPopularity(features, eval.NewBuckets(set.Ratings, c.Buckets))
		}
	}
	return cli.PrintForm(s.Out, c.Format, dataTables, "info", info)
}

func describeFeatures(f *dataset.ItemFeatures) *describedFeatures {
	out := &describedFeatures{Skipped: f.Skipped, Digest: f.Digest}
	for _, c := range f.Categories {
		d := describedCategory{Name: c.Name, Values: len(c.Values), Features: len(c.Value)}
		items := make([]int, len(c.Values))
		for j := range f.Items {
			values, _ := c.Features(j)
			if len(values) > 0 {
				d.Items++
			}
			for _, v := range values {
				items[v]++
			}
		}
		for v, n := range items {
			if n > d.TopItems {
				d.Top, d.TopItems = c.Values[v], n
			}
		}
		out.Categories = append(out.Categories, d)
	}
	return out
}

// timesOf says when ratings were given.
func timesOf(span *dataset.TimeSpan) string {
	if span == nil {
		return "none"
	}
	day := func(at float64) string {
		if math.Abs(at) > 2e11 { // about the year 8300
			return fmt.Sprint(at)
		}
		return time.Unix(int64(at), 0).UTC().Format(time.DateOnly)
	}
	text := day(span.First) + " to " + day(span.Last) + " (UTC)"
	if span.Without > 0 {
		text += fmt.Sprintf("; %d without a time", span.Without)
	}
	return text
}

// formKeys say how a file is written, dataKeys also how commands without an experiment read it, and raterKeys who is public.
var (
	formKeys = []*config.Key{
		algorithm.Columns.Key, algorithm.Separator.Key, algorithm.NoHeader.Key, algorithm.DayFirst.Key, algorithm.Encoding.Key,
		algorithm.Member.Key,
	}
	dataKeys = slices.Concat(formKeys, []*config.Key{
		algorithm.RatingMin.Key, algorithm.RatingMax.Key, algorithm.Duplicates.Key, algorithm.Unrated.Key, algorithm.BadRows.Key,
	})
	raterKeys = slices.Concat(dataKeys, []*config.Key{algorithm.PublicUsers.Key, algorithm.PublicIDs.Key})
)

// form returns what changes a configuration to the flags; nil without flags, which leave the data to the form
// of the run's. The flags are of data other than the run's.
func form(f verb.Flags, data string) (func(*config.Config), error) {
	said := f.Settings()
	switch {
	case len(said) == 0:
		return nil, nil
	case data == "":
		return nil, cli.Misusef("--columns, --separator, --no-header, --day-first, --encoding and --member say how other ratings are written; say --data too")
	}
	written, err := config.Resolve(said)
	return func(c *config.Config) {
		for _, k := range formKeys {
			c.Take(k, written)
		}
	}, err
}

// options checks the flags and returns what they say.
func options(f verb.Flags) (read.Options, error) {
	c, err := config.Resolve(f.Settings())
	o := experiment.DataOptions(c)
	o.MaybeTimes = false // nothing is measured
	return o, err
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
