package scenario

import "context"

// cold: there is nothing on disk.
var cold = Scenario{
	Name: "cold", Title: "cold start",
	Kinds: []string{"pods", "configmaps", "widgets"},
	Metrics: []Metric{
		{Key: "synced", Title: "time to HasSynced", Unit: Seconds},
		bytesMetric, rssAnonMetric, rssFileMetric,
	},
	Subjects: typedAndDynamic,
	Run: func(ctx context.Context, b *Bench) (Result, error) {
		r, err := b.start(ctx, nil)
		if err != nil {
			return nil, err
		}
		took, err := r.AwaitSync(ctx)
		if err != nil {
			return finish(r, nil, err)
		}
		result := Result{"synced": took.Seconds(), "bytes": float64(r.Network.Received())}
		b.memory(result)
		return finish(r, result, b.complete(r))
	},
	Seconds: linear(1, 1),
}
