package recommend_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/results/recommend"
)

// ownFolder writes the result of a client whose embedding is (1, 2), among items at (1, 0), (0, 1),
// (1, 1) and (3, 0): products by hand are 1, 2, 3 and 3.
func ownFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	user, items := model.NewMatrix(1, 2), model.NewMatrix(4, 2)
	copy(user.Data(), []float64{1, 2})
	copy(items.Data(), []float64{1, 0, 0, 1, 1, 1, 3, 0})
	for _, x := range []model.Embeddings{
		model.NewEmbeddings("user_embeddings", user, []string{"me"}),
		model.NewEmbeddings("item_embeddings", items, []string{"a", "b", "c", "d"}),
	} {
		if err := results.WriteEmbeddings(dir, x); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A client's own device recommends by the products of its embedding with the items' embeddings,
// without the user's rated items. Titles come from a list that has other items and another order.
func TestOwnRecommendations(t *testing.T) {
	all := opened.File(t, "user,item,rating\nme,a,5\nme,b,1\nyou,c,3\nyou,d,4\nyou,a,2\n")
	e := opened.Experiment(t, "algorithm=fmf-lfl rank=2 split.test=0.5 data="+all)
	mine := opened.File(t, "user,item,rating\nme,d,4\nme,elsewhere,2\n")
	titles := t.TempDir()
	if err := os.WriteFile(filepath.Join(titles, "movies.csv"), []byte("movieId,title,genres\nx,Else,\nc,Third,\nb,Second,\na,First,\nd,Fourth,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := recommend.Open(t.Context(), ownFolder(t), recommend.Options{Session: e, Data: mine, Titles: titles})
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Recommend(r.Data.UserIDs[0], 10)
	want := []recommend.Recommendation{ // d is rated
		{Item: recommend.Item{ID: "c", Title: "Third"}, Score: 3, Predicted: 3},
		{Item: recommend.Item{ID: "b", Title: "Second"}, Score: 2, Predicted: 2},
		{Item: recommend.Item{ID: "a", Title: "First"}, Score: 1, Predicted: 1},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	like, err := r.Similar("First", 1, recommend.Cosine)
	if err != nil || like.Item.ID != "a" || len(like.Items) != 1 || like.Items[0].ID != "d" || *like.Items[0].Cosine != 1 {
		t.Errorf("%+v, %v; want d with 1", like, err)
	}
	var table strings.Builder
	if err = r.PrintRecommendations(&table, got); err != nil || !strings.Contains(table.String(), "3.00   c   Third") {
		t.Errorf("%v\n%s", err, &table)
	}
}

// A client's result answers as a deployment's model does, for its own user alone. The products are
// the same as in TestOwnRecommendations.
func TestDeployedOfAClient(t *testing.T) {
	all := opened.File(t, "user,item,rating\nme,a,5\nme,b,1\nyou,c,3\nyou,d,4\nyou,a,2\n")
	e := opened.Experiment(t, "algorithm=fmf-lfl rank=2 split.test=0.5 data="+all)
	mine := opened.File(t, "user,item,rating\nme,d,4\nyou,a,2\n")
	r, err := recommend.Open(t.Context(), ownFolder(t), recommend.Options{Session: e, Data: mine, User: "me"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Recommend("me", 1); err != nil || len(got) != 1 || got[0].ID != "c" || got[0].Predicted != 3 {
		t.Errorf("%v, %v; want c with 3", got, err)
	}
	if _, err := recommend.Open(t.Context(), ownFolder(t), recommend.Options{Session: e, Data: mine, User: "you"}); !errors.Is(err, recommend.ErrNotThere) {
		t.Errorf("another user: %v", err)
	}
	if _, err := recommend.Open(t.Context(), ownFolder(t), recommend.Options{Session: e, User: "me"}); !errors.Is(err, recommend.ErrNotOwn) {
		t.Errorf("without ratings: %v", err)
	}
}

// Open refuses questions without an answer: an unnamed user among several, and a result without
// items. The result of an organisation refuses users that are not the organisation's.
func TestOwnRefuses(t *testing.T) {
	all := opened.File(t, "user,item,rating\nme,a,5\nme,b,1\nyou,c,3\nyou,d,4\nyou,a,2\n")
	e := opened.Experiment(t, "algorithm=fmf-lfl rank=2 split.test=0.5 data="+all)
	if _, err := recommend.Open(t.Context(), ownFolder(t), recommend.Options{Session: e, Data: all}); !errors.Is(err, recommend.ErrAmbiguous) || !strings.Contains(err.Error(), "--user") {
		t.Errorf("of two users: %v", err)
	}
	yours := opened.File(t, "user,item,rating\nyou,c,3\nyou,d,4\n")
	if _, err := recommend.Open(t.Context(), ownFolder(t), recommend.Options{Session: e, Data: yours, User: "me"}); err != nil {
		t.Errorf("of a user without ratings: %v", err)
	}
	for user, data := range map[string]string{"you": all, "other": all, "": yours} {
		_, err := recommend.Open(t.Context(), ownFolder(t), recommend.Options{Session: e, Data: data, User: user})
		if !errors.Is(err, recommend.ErrNotThere) || !strings.Contains(err.Error(), `is the result of the client of user "me"`) {
			t.Errorf("the result of me, asked for user %q: %v", user, err)
		}
	}
	if _, err := recommend.Open(t.Context(), t.TempDir(), recommend.Options{Session: e, Data: all, User: "me"}); !errors.Is(err, recommend.ErrNotOwn) {
		t.Errorf("without items: %v", err)
	}
	parties := opened.Experiment(t, "algorithm=fmf-hfl parties=2 tolerance=0 split.test=0.5 data="+all)
	r, err := recommend.Open(t.Context(), ownFolder(t), recommend.Options{Session: parties, Data: all, User: "you"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = r.Recommend("you", 1); !errors.Is(err, recommend.ErrNotThere) {
		t.Errorf("of an organisation without that user: %v", err)
	}
}
