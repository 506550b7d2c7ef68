package stat

import "testing"

func TestOf(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   Summary
	}{
		{"nothing", nil, Summary{}},
		{"one", []float64{3}, Summary{1, 3, 3, 3}},
		{"an outlier does not move the median", []float64{900, 2, 3}, Summary{3, 3, 2, 900}},
		{"an even number", []float64{4, 1, 3, 2}, Summary{4, 2.5, 1, 4}},
	} {
		if got := Of(c.values); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	values := []float64{2, 1}
	Of(values)
	if values[0] != 2 {
		t.Error("the values were sorted in place")
	}
}

func TestQuantile(t *testing.T) {
	values := make([]float64, 100)
	for i := range values {
		values[i] = float64(i)
	}
	for q, want := range map[float64]float64{0: 0, 0.5: 50, 0.99: 99, 1: 99} {
		if got := Quantile(values, q); got != want {
			t.Errorf("%g: %g, want %g", q, got, want)
		}
	}
	if got := Quantile(nil, 0.5); got != 0 {
		t.Errorf("of nothing: %g", got)
	}
}
