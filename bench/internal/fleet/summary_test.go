package fleet

import (
	"fmt"
	"math"
)

// series has the measurements of one simulated run for the plot: one value for each interval of time.
type series struct {
	Requests []float64 `json:"requestsPerSecond"`
	MB       []float64 `json:"megabytesPerSecond"`
	Cores    []float64 `json:"coresBusy"`
	Level    []float64 `json:"percentLevel"`
}

type summary struct {
	Scenario string  `json:"scenario"`
	Client   string  `json:"client"`
	Agents   int     `json:"agents"`
	GB       float64 `json:"gigabytes"`
	CPU      float64 `json:"cpuSeconds"`
	// Lists is the number of lists that the server has begun to serve, and PeakLists is its maximum in one second.
	Lists     int `json:"lists"`
	PeakLists int `json:"peakListsPerSecond"`
	Requests  int `json:"requests"`
	Refused   int `json:"refused"`
	Peak      int `json:"peakRequestsPerSecond"`
	// Half and All are the seconds from time zero until half of the agents, and all of them, had the server's state.
	Half int `json:"secondsToHalf"`
	All  int `json:"secondsToAll"`
	// Full is the number of seconds in which more than nine tenths of the server's cores were busy.
	Full   int    `json:"secondsFull"`
	Series series `json:"series"`
}

const step = 10

func summarize(sc scenario, c client, n int, samples []sample) summary {
	last := samples[len(samples)-1]
	s := summary{
		Scenario: sc.Name, Client: c.Name, Agents: n, GB: last.Bytes / 1e9, CPU: last.CPU, Lists: last.Begun,
		Requests: last.Requests, Refused: last.Refused, Half: -1, All: -1,
	}
	for i, now := range samples {
		if s.Half < 0 && 2*now.Level >= n {
			s.Half = i
		}
		if s.All < 0 && now.Level == n {
			s.All = i
		}
		if i == 0 {
			continue
		}
		s.Peak = max(s.Peak, now.Requests-samples[i-1].Requests)
		s.PeakLists = max(s.PeakLists, now.Begun-samples[i-1].Begun)
		if now.CPU-samples[i-1].CPU > 0.9*serverCores {
			s.Full++
		}
	}
	for i := step; i < len(samples); i += step {
		now, before := samples[i], samples[i-step]
		s.Series.Requests = append(s.Series.Requests, rounded(float64(now.Requests-before.Requests)/step))
		s.Series.MB = append(s.Series.MB, rounded((now.Bytes-before.Bytes)/1e6/step))
		s.Series.Cores = append(s.Series.Cores, rounded((now.CPU-before.CPU)/step))
		s.Series.Level = append(s.Series.Level, rounded(float64(now.Level)*100/float64(n)))
	}
	return s
}

func rounded(v float64) float64 { return math.Round(v*1000) / 1000 }

func (s summary) String() string {
	return fmt.Sprintf("| %s | %s | %d | %d | %.1f GB | %.0f s | %d | %d | %d s | %d s | %d s |",
		s.Scenario, s.Client, s.Lists, s.PeakLists, s.GB, s.CPU, s.Requests, s.Peak, s.Full, s.Half, s.All)
}

const heading = "| scenario | agents with | lists | most lists begun in a second | received | server CPU | requests " +
	"| most in a second | CPU full for | half level after | all after |\n|---|---|---|---|---|---|---|---|---|---|---|"
