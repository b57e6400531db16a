package recommend

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results/export"
)

// atOnce is the number of users whose lists are in memory at once.
const atOnce = 256

// WriteLists writes the lists of all users of the data, n items each, in the order of the data. The format
// is one of [export.ListFormats]. wrote counts the users with a list. left counts the users without one: nothing
// is known of them, and the model does not say which items are liked most.
func (r *Recommender) WriteLists(ctx context.Context, w io.Writer, format string, n int, run protocol.Runner) (wrote, left int, err error) {
	out, err := export.NewLists(w, format)
	if err != nil {
		return 0, 0, err
	}
	users := slices.DeleteFunc(slices.Clone(r.Data.UserIDs), func(id string) bool { return r.absent[id] })
	for from := 0; from < len(users); from += atOnce {
		part := users[from:min(from+atOnce, len(users))]
		lists, errs := make([][]export.Line, len(part)), make([]error, len(part))
		run.Each(len(part), func(i int) {
			if errs[i] = ctx.Err(); errs[i] == nil {
				lists[i], errs[i] = r.lines(part[i], n)
			}
		})
		for i := range part {
			if errors.Is(errs[i], ErrNoPopularity) {
				left, errs[i] = left+1, nil
			} else {
				wrote++
			}
			if err = errors.Join(err, errs[i]); err != nil {
				return wrote, left, err
			}
			if err = out.Write(lists[i]); err != nil {
				return wrote, left, err
			}
		}
	}
	return wrote, left, out.Close()
}

// lines returns the list of one user.
func (r *Recommender) lines(user string, n int) ([]export.Line, error) {
	list, basis, err := r.Answer(user, n)
	out := make([]export.Line, len(list))
	for k, x := range list {
		out[k] = export.Line{User: user, Rank: int64(k + 1), Item: x.ID, Title: x.Title, Score: x.Score, Predicted: x.Predicted, By: string(basis.By)}
	}
	return out, err
}
