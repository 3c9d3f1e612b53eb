"""Short beginnings of the user's turn, by domain; the target goes on from there.

A stem steers what is asked and leaves the rest to the model. "open" has none:
what the model asks when nobody steers it.
"""

import random

_CHAT = """
What is; What are; What makes; What do people mean by; What should I do when
How do I; How does; How can I stop; How long should; How do you make
Why is; Why do; Why does my; When should I; Where did; Who was; Which is better
Can you explain; Can you recommend; Could you help me; Would it be; Should I
Tell me about; Tell me something interesting about; Tell me a story about
Explain; Explain to a beginner; Describe; Describe a day in; Define; Compare
Give me some tips for; Give me three ideas for; Give me a summary of; Give an example
List the main; List some; Name a few; Suggest a name for; Recommend
Write a poem; Write a short story about; Write an email to; Write a letter
Write a paragraph; Write a speech for; Write a dialogue; Write a slogan for
Write instructions for; Write a short review of; Write a description of
Summarise; Summarize the text:; Summarize what happened in; In one sentence,
Rewrite this more politely:; Correct this sentence:; Translate into French:
Translate into Spanish:; Put this in simpler words:; Find a title for
Is it true that; Is there; Are there any; Does; Did; Do I need
I am; I have; I want to; I would like to learn; I need advice; I feel
My son; My neighbour; My boss; We are; Our team; Help me; Help me write
Plan a trip to; Plan a; Make a list of; Make a schedule; Create a menu
Create a short; Imagine; Pretend that you are; Hello; Hi; Good evening
What happened in; What was life like; What are the advantages of
What are the causes of; What is the difference between; What is the history of
"""

_MATH = """
Compute; Calculate; Calculate the; Evaluate; Simplify; Solve; Solve for x:
Solve the equation; Factor; Expand; Convert; Convert 4; Convert 12; Round
What is 3; What is 7 times; What is 12; What is 15% of; What is half of
What is the area of; What is the perimeter of; What is the average of
What is the next number:; What is the probability; What is the square of
How many; How many hours; How many ways; How much does; How much is
If; If a; If x; If there are 5; If a train; If one apple costs
A bakery; A shop; A bus; A car drives; A box; A class has; A circle
Anna has; Ben buys; Mia and Leo; A worker earns; Two friends; A recipe
Find x; Find the; Find the sum of; Find the largest; Show that; Prove that
Write a Python function; Write a Python program; Write a Python class
Write a function; Write a function that returns; Write a loop; Write a script
Write a SQL query; Write a JavaScript function; Write a C program
Write a bash command; Write a regular expression; Write a unit test for
Write code that; Implement; Implement a function; def ; import ; for i in
What does this code print?; What does this function do?; Explain this code:
Fix the bug:; Fix this function:; Why does this code; Rewrite this code in
How do I reverse a; How do I read a file in; How do I sort; How do I parse
In Python,; In JavaScript,; In SQL,; Using a dictionary,; Using recursion,
Given a list of; Given two numbers; Given a string
"""


def _split(text: str) -> list[str]:
    return [stem.strip("\n") for line in text.strip("\n").split("\n")
            for stem in line.split("; ")]


STEMS: dict[str, list[str]] = {
    "chat": _split(_CHAT),
    "math": _split(_MATH),
    "open": [""],
}


def choose(shares: dict[str, float], rng: random.Random) -> tuple[str, str]:
    """A domain, by its share, and one of its stems."""
    domain = rng.choices(list(shares), weights=list(shares.values()))[0]
    return domain, rng.choice(STEMS[domain])
