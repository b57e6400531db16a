package results

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/model"
)

// csvFile writes a table into the folder. Only the owner may read it: it holds ids of users.
func (f *Folder) csvFile(name string, header []string, rows func(row func(...string) error) error) error {
	file, err := os.OpenFile(filepath.Join(f.temporary, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w := csv.NewWriter(file)
	if err = w.Write(header); err == nil {
		err = rows(func(fields ...string) error { return w.Write(fields) })
	}
	w.Flush()
	if err = errors.Join(err, w.Error(), file.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// part is a part of a split, with its name in split.csv.
type part struct {
	name string
	dataset.Ratings
}

// parts returns all parts of a split except the training part.
func parts(e *experiment.Experiment) []part {
	if h := e.Held; h != nil {
		return []part{{"validation-history", h.Validation.History}, {"validation-target", h.Validation.Target},
			{"test-history", h.Test.History}, {"test-target", h.Test.Target}}
	}
	return []part{{"validation", e.Split.Validation}, {"test", e.Split.Test}}
}

// writeSplit writes split.csv: the part of each rating outside of training, in the order of the
// data. A rating in no part, for example with too few stars or later than the training ratings, is
// left-out.
func (f *Folder) writeSplit(e *experiment.Experiment) error {
	listed := append([]part{{"", e.Split.Train}}, parts(e)...) // training ratings are not written
	rows := make([]*dataset.Rows, len(listed))
	for i, p := range listed {
		rows[i] = p.ByUser()
	}
	data := e.Data.ByUser()
	return f.csvFile("split.csv", []string{"user", "item", "part"}, func(row func(...string) error) error {
		left, in := make([][]int32, len(listed)), make([]model.Buffer, len(listed)) // items of the user in each part
		var all model.Buffer
		read := func(rows *dataset.Rows, u int, b *model.Buffer) []int32 {
			b.Items, b.Values = rows.Into(u, b.Items, b.Values)
			return b.Items
		}
		for u := range data.Len() {
			for i := range rows {
				left[i] = read(rows[i], u, &in[i])
			}
			for _, j := range read(data, u, &all) {
				name := "left-out"
				for i, part := range left { // all parts ascend as the data do
					if len(part) > 0 && part[0] == j {
						name, left[i] = listed[i].name, part[1:]
					}
				}
				if name == "" {
					continue
				}
				if err := row(e.Data.UserIDs[u], e.Data.ItemIDs[j], name); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// WritePredictions writes predictions.csv: the model's predictions of the test part, in stars on
// the scale. With implicit feedback they are the scores of the targets, in a unit of the algorithm.
func (f *Folder) WritePredictions(e *experiment.Experiment, m *model.Trained) error {
	shift := e.Data.Shift
	if e.Held != nil {
		shift = 0 // scores
	}
	return f.csvFile("predictions.csv", []string{"user", "item", "rating", "predicted"}, func(row func(...string) error) error {
		return e.Test.EachPrediction(m, func(user int, item int32, value float32, predicted float64) error {
			return row(e.Data.UserIDs[user], e.Data.ItemIDs[item],
				strconv.FormatFloat(float64(value)-shift, 'f', -1, 32), strconv.FormatFloat(predicted-shift, 'f', -1, 64))
		})
	})
}
