package fedssp

import (
	"bytes"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/model"
)

// rowsOf holds the ratings of users, by place.
type rowsOf []model.Ratings

func (r rowsOf) RatingsOf(at int, _ *model.Buffer) model.Ratings { return r[at] }

// A model that is measured between rounds, by fits of most users, is trained to the same bits as a
// model that never is, by users of processes of their own. So are the users themselves.
func TestMeasuringChangesNoBit(t *testing.T) {
	const n = 12
	for name, p := range kinds(40, 3) {
		t.Run(name, func(t *testing.T) {
			alone, rows := people(&p, n, 0.3, 3)
			together := NewUsers(&p, n, rowsOf(rows))
			same := make([]*user.User, n)
			for i := range same {
				same[i] = &together[i]
			}
			plain, measured := newStrategy(t, p, n, 0), newStrategy(t, p, n, 0)
			measure := func() {
				of, err := user.Measure(together, measured.Model())
				if err != nil {
					t.Fatal(err)
				}
				for i := range n - 2 { // two users are not asked about
					u, bias := together[i].FitTo(of, rows[i])
					want, wantBias := fit(t, &p, of.Model, rows[i])
					if !slices.Equal(u, want) || bias != wantBias {
						t.Fatalf("user %d is measured with %v and bias %v, want %v and %v", i, u, bias, want, wantBias)
					}
				}
			}
			for at := 1; round(t, plain, alone, nil); at++ {
				if at%3 != 1 { // otherwise users are still fitted to an earlier model
					measure()
				}
				if !round(t, measured, same, nil) || !bytes.Equal(plain.Model(), measured.Model()) {
					t.Fatalf("round %d: the models differ", at)
				}
			}
			measure()
			for i := range n {
				for _, u := range []*user.User{alone[i], same[i]} {
					if err := u.Finish(plain.Model(), serial{}); err != nil {
						t.Fatal(err)
					}
				}
				if !slices.Equal(alone[i].U, same[i].U) || alone[i].Bias != same[i].Bias {
					t.Errorf("user %d finishes with %v, want %v", i, same[i].U, alone[i].U)
				}
			}
		})
	}
}
