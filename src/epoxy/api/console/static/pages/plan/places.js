// Where the AWS regions of the table are: a word for people, longitude and latitude for the map, and where its figure is
// written there, beside those of its neighbours.
const LEFT = { x: -13, y: 6, anchor: "end" };
const RIGHT = { x: 13, y: 6, anchor: "start" };
const ABOVE = { x: 0, y: -14, anchor: "middle" };
const BELOW = { x: 0, y: 26, anchor: "middle" };

export const PLACES = {
  "us-east-1": { title: "Virginia", at: [-77.5, 39.0], figure: RIGHT },
  "us-west-1": { title: "California", at: [-121.9, 37.4], figure: BELOW },
  "us-west-2": { title: "Oregon", at: [-119.7, 45.8], figure: LEFT },
  "eu-west-1": { title: "Ireland", at: [-6.3, 53.3], figure: LEFT },
  "eu-central-1": { title: "Frankfurt", at: [8.7, 50.1], figure: RIGHT },
  "ap-northeast-1": { title: "Tokyo", at: [139.7, 35.7], figure: RIGHT },
  "ap-southeast-1": { title: "Singapore", at: [103.8, 1.3], figure: BELOW },
  "ap-southeast-2": { title: "Sydney", at: [151.2, -33.9], figure: ABOVE },
  "sa-east-1": { title: "São Paulo", at: [-46.6, -23.5], figure: RIGHT },
};
