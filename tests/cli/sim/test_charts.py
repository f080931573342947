"""Line charts: valid SVG, with every line inside the frame and every label escaped."""

import re
import xml.etree.ElementTree as ElementTree

from epoxy.cli.sim.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, chart

SVG = "{http://www.w3.org/2000/svg}"


def test_points_are_inside_the_frame_and_labels_are_text() -> None:
    drawn = chart("a < b & c", "K", ["1", "2", "3"], {"<counts>": [1.0, 1.5, 3.0], "flat": [1.0, 1.0, 1.0]})
    root = ElementTree.fromstring(drawn)
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert {"a < b & c", "<counts>", "flat", "K", "3.00"} <= set(texts)
    points = [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in root.iter(f"{SVG}circle")]
    assert len(points) == 6
    assert all(LEFT <= x <= WIDTH - RIGHT and TOP <= y <= HEIGHT - BOTTOM for x, y in points)
    assert points[2][1] == TOP, "the largest value is at the top"
    assert points[0][1] == HEIGHT - BOTTOM, "1 is at the bottom"


def test_a_flat_chart_divides_by_nothing() -> None:
    assert len(re.findall("<circle", chart("t", "x", ["1"], {"flat": [1.0]}))) == 1
