package read

import "fmt"

// featureRater is the category that the ratings of public users are.
const featureRater = "rater"

// raters adds the ratings of public users. A rating that is not above 0 cannot be a weight and is left
// out. A user without a remaining rating is left out too.
func (r *featureReader) raters() error {
	public := r.set.Raters
	t, err := r.category(featureRater, "public users")
	if err != nil {
		return err
	}
	for k, u := range public.User {
		weight := float64(public.Value[k])
		if public.Least > 0 {
			if weight < public.Least {
				continue
			}
			weight = 1
		}
		if !(weight >= minWeight && weight <= maxWeight) {
			continue
		}
		v, err := t.values.Index([]byte(public.IDs[u]))
		if err != nil {
			return fmt.Errorf("value %w", err)
		}
		t.features = append(t.features, feature{item: public.Item[k], value: v, weight: weight})
	}
	if len(t.features) == 0 {
		return fmt.Errorf("%w: the %d public users have no rating of %v or more", ErrNoFeatures, len(public.IDs), max(public.Least, minWeight))
	}
	return nil
}
